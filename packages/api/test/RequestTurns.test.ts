import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { maxStartsPerTurn, maxTurnMillis, maxWaitingToStart, RequestTurns } from "../src/Server/RequestTurns.ts"

/** Another turn of the event loop, after everything that is scheduled for this one. */
const nextTurn = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

/** Each start takes so long. */
const recorder = (startMillis = 0) => {
  const started: Array<string> = []
  let now = 0
  const turns = new RequestTurns(() => now)
  const start = (owner: string) => {
    now += startMillis
    started.push(owner)
  }
  const run = (owner: string, isClosed = () => false) =>
    turns.run({ owner: () => owner, isClosed, start: () => start(owner) })
  return { run, started }
}

it.live("a turn of the event loop starts as many requests as it may, and the others in later turns", () =>
  Effect.gen(function*() {
    const { run, started } = recorder()
    for (let count = 0; count < 3 * maxStartsPerTurn; count++) assert.isTrue(run("one"))
    for (const turn of [1, 2, 3]) {
      assert.strictEqual(started.length, turn * maxStartsPerTurn)
      yield* nextTurn
    }
    assert.strictEqual(started.length, 3 * maxStartsPerTurn)
  }))

it.live("a turn whose requests take long ends after its time, and starts one at least", () =>
  Effect.gen(function*() {
    const cases = [[maxTurnMillis / 4, 4], [maxTurnMillis / 2.5, 3], [maxTurnMillis, 1], [100, 1]] as const
    for (const [startMillis, inTurn] of cases) {
      const { run, started } = recorder(startMillis)
      for (let count = 0; count < 5 * inTurn; count++) assert.isTrue(run("one"))
      for (const turn of [1, 2, 3, 4, 5]) {
        assert.strictEqual(started.length, turn * inTurn)
        yield* nextTurn
      }
    }
  }))

it.live("an owner with one request waits for a part of a turn, however many another one has", () =>
  Effect.gen(function*() {
    const { run, started } = recorder()
    for (let count = 0; count < 5_000; count++) run("flood")
    run("other")
    yield* nextTurn
    assert.include(started, "other")
    assert.strictEqual(started.length, 2 * maxStartsPerTurn)
  }))

it.live("one owner has a quarter of what may wait, and closed connections start nothing", () =>
  Effect.gen(function*() {
    const { run, started } = recorder()
    const share = maxStartsPerTurn + maxWaitingToStart / 4
    for (let count = 0; count < share; count++) assert.isTrue(run("flood", () => true))
    assert.isFalse(run("flood"))
    assert.isTrue(run("other"))
    while (started.length < maxStartsPerTurn + 1) yield* nextTurn
    assert.strictEqual(started.at(-1), "other")
    assert.isTrue(run("flood"))
  }))
