import { StepMillis } from "@card-rewards/core/Database"
import { ServerError, unavailable } from "@card-rewards/core/Database/Errors"
import { Unavailable } from "@card-rewards/domain/Errors"
import { assert, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { TestClock } from "effect/testing"
import * as Loop from "../src/Loop.ts"

it.effect("a step has 5 s, and so do its first two retries; the third has more time, until steps are fast again", () =>
  Effect.gen(function*() {
    const deadlines: Array<number> = []
    let neededMillis = 8_000
    const step = Effect.gen(function*() {
      const deadlineMillis = yield* StepMillis
      const needed = neededMillis
      deadlines.push(deadlineMillis)
      yield* Effect.sleep(Math.min(needed, deadlineMillis))
      return deadlineMillis < needed ? yield* new Unavailable({ message: "deadline exceeded" }) : false
    })
    yield* Effect.forkScoped(Loop.run("slow", step))
    yield* TestClock.adjust("45 seconds")
    assert.deepStrictEqual(deadlines.slice(0, 5), [5_000, 5_000, 5_000, 10_000, 20_000])
    neededMillis = 10
    yield* TestClock.adjust("20 seconds")
    assert.strictEqual(deadlines.at(-1), 5_000)
    // exceeded deadlines that are not in a row do not change the deadline
    deadlines.length = 0
    for (const millis of [8_000, 10, 8_000, 10]) {
      neededMillis = millis
      yield* TestClock.adjust("5 seconds")
    }
    assert.deepStrictEqual([...new Set(deadlines)], [5_000])
  }).pipe(Effect.scoped))

it.effect("the deadline of a step does not grow while the database is unreachable", () =>
  Effect.gen(function*() {
    const deadlines: Array<number> = []
    const step = Effect.gen(function*() {
      const deadlineMillis = yield* StepMillis
      deadlines.push(deadlineMillis)
      yield* Effect.sleep(deadlineMillis)
      return yield* new Unavailable({ message: "deadline exceeded" })
    })
    yield* Effect.forkScoped(Effect.provideService(Loop.run("cut off", step), Loop.IsReachable, Effect.succeed(false)))
    yield* TestClock.adjust("1 minute")
    assert.isAtLeast(deadlines.length, 7)
    assert.deepStrictEqual([...new Set(deadlines)], [5_000])
  }).pipe(Effect.scoped))

it.effect("a step is retried at least every 4 s while the database is unreachable", () =>
  Effect.gen(function*() {
    let tries = 0
    const step = Effect.suspend(() => {
      tries++
      return new Unavailable({ message: "away" })
    })
    yield* Effect.forkScoped(Loop.run("away", step))
    yield* TestClock.adjust("1 minute")
    const before = tries
    for (const round of [1, 2, 3, 4]) {
      yield* TestClock.adjust("4 seconds")
      assert.isAtLeast(tries, before + round)
    }
  }).pipe(Effect.scoped))

it.effect("the log line of a failed step names the cause of the failure", () =>
  Effect.gen(function*() {
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.make(({ message }) => void lines.push(`${message}`))])
    const step = Effect.fail(new Unavailable({ message: "Rewards of integrator acme are being caught up with" }))
    yield* Effect.forkScoped(Effect.provide(Loop.run("maturing", step), logger))
    yield* TestClock.adjust("1 second")
    const expected = "maturing: Rewards of integrator acme are being caught up with; trying again in 200 ms"
    assert.strictEqual(lines[0], expected)
  }).pipe(Effect.scoped))

it.effect("the log line of each failed step says what PostgreSQL said, where it did", () =>
  Effect.gen(function*() {
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.make(({ message }) => void lines.push(`${message}`))])
    const isFull = unavailable(new ServerError({ code: "53100", message: "No space left on device (53100)" }))
    yield* Effect.forkScoped(Effect.provide(Loop.run("maturing", Effect.fail(isFull)), logger))
    yield* Effect.forkScoped(Effect.provide(Loop.run("sealing", Effect.fail(unavailable())), logger))
    yield* TestClock.adjust("300 millis")
    assert.deepStrictEqual(lines.toSorted(), [
      "maturing failed; trying again in 200 ms: No space left on device (53100)",
      "maturing failed; trying again in 400 ms: No space left on device (53100)",
      "sealing: The service cannot reach its database; send the same request again; trying again in 200 ms",
      "sealing: The service cannot reach its database; send the same request again; trying again in 400 ms"
    ])
  }).pipe(Effect.scoped))
