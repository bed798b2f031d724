import { StepMillis } from "@card-rewards/core/Database"
import { Unavailable } from "@card-rewards/domain/Errors"
import { assert, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { TestClock } from "effect/testing"
import * as Loop from "../src/Loop.ts"

it.effect("a step has 5 s, and twice again where its connection may be half-open; one that needs more gets it while steps are slow", () =>
  Effect.gen(function*() {
    const given: Array<number> = []
    let needsMillis = 8_000
    const step = Effect.gen(function*() {
      const patience = yield* StepMillis
      const needs = needsMillis
      given.push(patience)
      yield* Effect.sleep(Math.min(needs, patience))
      return patience < needs ? yield* new Unavailable({ message: "late" }) : false
    })
    yield* Effect.forkScoped(Loop.run("slow", step))
    yield* TestClock.adjust("45 seconds")
    assert.deepStrictEqual(given.slice(0, 5), [5_000, 5_000, 5_000, 10_000, 20_000])
    needsMillis = 10
    yield* TestClock.adjust("20 seconds")
    assert.strictEqual(given.at(-1), 5_000)
    // losses that are further apart than a step leave its patience as it is
    given.length = 0
    for (const millis of [8_000, 10, 8_000, 10]) {
      needsMillis = millis
      yield* TestClock.adjust("5 seconds")
    }
    assert.deepStrictEqual([...new Set(given)], [5_000])
  }).pipe(Effect.scoped))

it.effect("a step gets no more time because the database did not answer at all", () =>
  Effect.gen(function*() {
    const given: Array<number> = []
    const step = Effect.gen(function*() {
      const patience = yield* StepMillis
      given.push(patience)
      yield* Effect.sleep(patience)
      return yield* new Unavailable({ message: "late" })
    })
    yield* Effect.forkScoped(Effect.provideService(Loop.run("cut off", step), Loop.IsReachable, Effect.succeed(false)))
    yield* TestClock.adjust("1 minute")
    assert.isAtLeast(given.length, 7)
    assert.deepStrictEqual([...new Set(given)], [5_000])
  }).pipe(Effect.scoped))

it.effect("a database that is away is asked again at least every 4 s", () =>
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

it.effect("the log line of a step that is tried again names its true cause", () =>
  Effect.gen(function*() {
    const lines: Array<string> = []
    const logger = Logger.layer([Logger.make(({ message }) => void lines.push(`${message}`))])
    const step = Effect.fail(new Unavailable({ message: "Rewards of integrator acme are being caught up with" }))
    yield* Effect.forkScoped(Effect.provide(Loop.run("maturing", step), logger))
    yield* TestClock.adjust("1 second")
    assert.strictEqual(lines[0], "maturing: Rewards of integrator acme are being caught up with; trying again in 200 ms")
  }).pipe(Effect.scoped))
