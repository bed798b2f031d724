import { OutageLog } from "@card-rewards/api/Pipeline/OutageLog"
import { noteCell } from "@card-rewards/api/Pipeline/RequestCell"
import { ServerError, unavailable } from "@card-rewards/core/Database/Errors"
import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Logger } from "effect"
import { TestClock } from "effect/testing"

const failed = (code: string) => unavailable(new ServerError({ code, message: `No space left on device (${code})` }))

it.effect("logs each code of PostgreSQL once in 10 s and cell, however many requests fail, and nothing else", () =>
  Effect.gen(function*() {
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.make(({ message }) => void lines.push(`${message}`))])
    const outages = new OutageLog()
    const note = (error: object, cell?: string) =>
      Effect.withFiber((request) => {
        noteCell(request, cell)
        return outages.note(error)
      }).pipe(Effect.provide(logger), Effect.forkChild, Effect.flatMap(Fiber.join))
    const line = "Requests are answered 503: No space left on device (53100)"
    for (let count = 0; count < 1_000; count++) yield* note(failed("53100"))
    assert.deepStrictEqual(lines, [line])
    yield* note(failed("53100"), "b")
    yield* note(failed("53200"))
    yield* note(failed("53200"))
    assert.deepStrictEqual(lines.splice(1), [line, line.replace("53100", "53200")])
    yield* TestClock.adjust("9900 millis")
    yield* note(failed("53100"))
    assert.deepStrictEqual(lines, [line])
    yield* TestClock.adjust("100 millis")
    yield* note(failed("53100"))
    yield* note(unavailable())
    yield* note(new Error("another"))
    assert.deepStrictEqual(lines, [line, line])
  }))
