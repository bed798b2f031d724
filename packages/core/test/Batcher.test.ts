import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Result } from "effect"
import { TestClock } from "effect/testing"
import * as Batcher from "../src/Batcher.ts"

interface Limits {
  readonly maxBatch: number
  readonly maxPending: number
  readonly startAt: ReadonlyArray<number>
  readonly isPerKey: boolean
}

/** A batcher whose batches end when a test ends them. `batches` has the requests of each. */
const held = Effect.fnUntraced(function*(options: Partial<Limits> = {}) {
  const batches: Array<{ readonly requests: ReadonlyArray<string>; readonly end: Deferred.Deferred<void> }> = []
  const { all, one } = yield* Batcher.make<string, string, never>({
    name: "test",
    keyOf: ([key = ""]) => key,
    maxBatch: 100,
    maxPending: 100,
    startAt: [1, 3],
    ...options,
    busy: "busy",
    run: Effect.fnUntraced(function*(batch) {
      const end = yield* Deferred.make<void>()
      batches.push({ requests: batch.map((pending) => pending.request), end })
      yield* Deferred.await(end)
      for (const pending of batch) pending.complete(Exit.succeed(`answer to ${pending.request}`))
    })
  })
  const begin = Effect.fnUntraced(function*(...requests: ReadonlyArray<string>) {
    const fibers = yield* Effect.forEach(requests, (request) => Effect.forkChild(one(request)))
    yield* TestClock.adjust(0)
    return fibers
  })
  const beginAll = Effect.fnUntraced(function*(...requests: ReadonlyArray<string>) {
    const fiber = yield* Effect.forkChild(all(requests))
    yield* TestClock.adjust(0)
    return fiber
  })
  const end = Effect.fnUntraced(function*(index: number) {
    const batch = batches[index]
    if (batch !== undefined) yield* Deferred.succeed(batch.end, undefined)
    yield* TestClock.adjust(0)
  })
  return { begin, beginAll, end, batches: () => batches.map(({ requests }) => requests) }
})

const refusal = (fiber: Fiber.Fiber<string, { readonly _tag: string }> | undefined) =>
  fiber === undefined ? Effect.die("no request") : Effect.map(Effect.flip(Fiber.join(fiber)), ({ _tag }) => _tag)

describe("a batcher", () => {
  it.effect("joins the requests that arrive while batches are in flight, and answers each", () =>
    Effect.gen(function*() {
      const { batches, begin, end } = yield* held()
      const [first] = yield* begin("a1")
      const [second] = yield* begin("a2")
      assert.deepStrictEqual(batches(), [["a1"]])
      const others = yield* begin("a3", "b1")
      assert.deepStrictEqual(batches(), [["a1"], ["a2", "a3", "b1"]], "enough for a second batch beside the first")
      const last = yield* begin("a4", "a5")
      yield* end(0)
      assert.deepStrictEqual(batches().slice(2), [["a4", "a5"]])
      yield* end(1)
      yield* end(2)
      const fibers = [first, second, ...others, ...last].flatMap((fiber) => fiber ?? [])
      assert.deepStrictEqual(
        yield* Fiber.joinAll(fibers),
        ["a1", "a2", "a3", "b1", "a4", "a5"].map((one) => `answer to ${one}`)
      )
    }))

  it.effect("alternates between keys, so that a key with few requests does not wait behind one with many", () =>
    Effect.gen(function*() {
      const { batches, begin, end } = yield* held({ maxBatch: 4, startAt: [1] })
      yield* begin("x0")
      yield* begin(...Array.from({ length: 9 }, (_, index) => `a${index}`), "b0", "c0", "b1")
      for (let index = 0; index < 5; index++) yield* end(index)
      const [, ...later] = batches()
      const order = later.flat()
      assert.isBelow(order.indexOf("b0"), 4)
      assert.isBelow(order.indexOf("c0"), 4)
      assert.isBelow(order.indexOf("b1"), 8)
      const ofA = batches().flat().filter((one) => one.startsWith("a"))
      assert.deepStrictEqual(ofA, ofA.toSorted(), "in order of arrival")
      assert.isTrue(batches().every((batch) => batch.length <= 4))
    }))

  it.effect("refuses the requests of a key beyond a quarter of the limit at once, and accepts those of others", () =>
    Effect.gen(function*() {
      const { batches, begin, end } = yield* held({ maxPending: 8, maxBatch: 1 })
      yield* begin("x0")
      yield* begin("x1", "x2", "x3")
      const [, , refused] = yield* begin("a1", "a2", "a3")
      assert.strictEqual(yield* refusal(refused), "Unavailable")
      const [accepted] = yield* begin("b1")
      for (let index = 0; index < 8; index++) yield* end(index)
      assert.isTrue(batches().flat().includes("b1"))
      assert.deepStrictEqual(accepted?.pollUnsafe(), Exit.succeed("answer to b1"))
    }))

  it.effect("refuses requests beyond the limit of all keys at once", () =>
    Effect.gen(function*() {
      const { begin } = yield* held({ maxPending: 4, maxBatch: 1 })
      yield* begin("x0")
      yield* begin("a", "b", "c", "d", "e", "f", "g")
      const [last] = yield* begin("h")
      assert.strictEqual(yield* refusal(last), "Unavailable")
    }))

  it.effect("answers each request within 4.5 s, even behind batches that never end", () =>
    Effect.gen(function*() {
      const { begin, end } = yield* held()
      const [first] = yield* begin("a")
      yield* TestClock.adjust("3 seconds")
      const [second] = yield* begin("b")
      yield* TestClock.adjust("1499 millis")
      assert.isUndefined(first?.pollUnsafe())
      yield* TestClock.adjust("101 millis")
      assert.strictEqual(yield* refusal(first), "Unavailable")
      assert.isUndefined(second?.pollUnsafe())
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(yield* refusal(second), "Unavailable")
      const [next] = yield* begin("next")
      yield* end(0)
      yield* end(1)
      assert.deepStrictEqual(next?.pollUnsafe(), Exit.succeed("answer to next"))
    }))

  it.effect("omits the requests of interrupted callers from batches", () =>
    Effect.gen(function*() {
      const { batches, begin, end } = yield* held()
      yield* begin("a")
      const [left] = yield* begin("left")
      yield* begin("c")
      if (left !== undefined) yield* Fiber.interrupt(left)
      yield* end(0)
      assert.deepStrictEqual(batches(), [["a"], ["c"]])
    }))

  it.effect("keeps the order of a list: none of it is in a batch while an earlier one is in another", () =>
    Effect.gen(function*() {
      const { batches, begin, beginAll, end } = yield* held({ maxBatch: 2, startAt: [1, 1] })
      const list = yield* beginAll("a1", "a2", "a3", "a4", "a5")
      yield* begin("a6", "b1")
      assert.deepStrictEqual(batches(), [["a1", "a2"], ["b1"]])
      yield* end(1)
      assert.deepStrictEqual(batches().length, 2, "the list is held, and what its key has behind it")
      yield* end(0)
      assert.deepStrictEqual(batches().slice(2), [["a3", "a4"]])
      yield* end(2)
      assert.deepStrictEqual(batches().slice(3), [["a5", "a6"]])
      assert.isUndefined(list.pollUnsafe())
      yield* end(3)
      const answers = ["a1", "a2", "a3", "a4", "a5"].map((one) => Result.succeed(`answer to ${one}`))
      assert.deepStrictEqual(yield* Fiber.join(list), answers)
    }))

  it.effect("goes on, in turns, where the lists of several keys are held", () =>
    Effect.gen(function*() {
      const { batches, begin, beginAll, end } = yield* held({ maxBatch: 2, startAt: [1, 1] })
      yield* begin("x", "y")
      for (const key of ["a", "b"]) yield* beginAll(`${key}1`, `${key}2`)
      yield* end(0)
      yield* end(1)
      assert.deepStrictEqual(batches().slice(2), [["a1", "b1"]])
      yield* begin("c")
      assert.deepStrictEqual(batches().slice(3), [["c"]])
      yield* end(2)
      assert.deepStrictEqual(batches().slice(4), [["a2", "b2"]])
    }))

  it.effect("refuses a list at once that does not fit as a whole", () =>
    Effect.gen(function*() {
      const { batches, beginAll } = yield* held({ maxPending: 8 })
      const list = yield* beginAll("a1", "a2", "a3")
      assert.strictEqual((yield* Effect.flip(Fiber.join(list)))._tag, "Unavailable")
      assert.deepStrictEqual(batches(), [])
    }))

  it.effect("fails a list with its first request that is not answered in time, and leaves the others out", () =>
    Effect.gen(function*() {
      const { batches, begin, beginAll, end } = yield* held({ maxBatch: 2, startAt: [1] })
      const list = yield* beginAll("a1", "a2", "a3")
      yield* TestClock.adjust("4600 millis")
      assert.strictEqual((yield* Effect.flip(Fiber.join(list)))._tag, "Unavailable")
      yield* begin("a4")
      yield* end(0)
      assert.deepStrictEqual(batches(), [["a1", "a2"], ["a4"]])
    }))

  it.effect("fails all lists in time that wait behind a batch that never ends", () =>
    Effect.gen(function*() {
      const { beginAll } = yield* held({ maxBatch: 1, startAt: [1] })
      const lists = yield* Effect.forEach(["a", "b", "c", "d"], (key) => beginAll(`${key}1`, `${key}2`, `${key}3`))
      yield* TestClock.adjust("4600 millis")
      for (const list of lists) assert.strictEqual((yield* Effect.flip(Fiber.join(list)))._tag, "Unavailable")
    }))

  it.effect("leaves a list out of batches whose caller is interrupted", () =>
    Effect.gen(function*() {
      const { batches, begin, beginAll, end } = yield* held({ maxBatch: 1, startAt: [1] })
      const list = yield* beginAll("a1", "a2")
      yield* Fiber.interrupt(list)
      yield* begin("a3")
      yield* end(0)
      assert.deepStrictEqual(batches(), [["a1"], ["a3"]])
    }))

  it.effect("runs one batch of a key at a time where it is asked to, beside those of other keys", () =>
    Effect.gen(function*() {
      const { batches, begin, end } = yield* held({ maxBatch: 2, startAt: [1, 1], isPerKey: true })
      const fibers = yield* begin("a1", "b1", "a2", "a3", "a4", "b2", "c1")
      assert.deepStrictEqual(batches(), [["a1"], ["b1"]])
      yield* end(1)
      assert.deepStrictEqual(batches().slice(2), [["c1"]], "in turn")
      yield* end(2)
      assert.deepStrictEqual(batches().slice(3), [["b2"]], "the first batch of a has not ended")
      yield* end(0)
      assert.deepStrictEqual(batches().slice(4), [["a2", "a3"]])
      yield* end(3)
      assert.lengthOf(batches(), 5)
      yield* end(4)
      yield* end(5)
      assert.deepStrictEqual(batches().slice(5), [["a4"]])
      assert.lengthOf(yield* Fiber.joinAll(fibers), 7)
      yield* begin("a5")
      assert.deepStrictEqual(batches().slice(6), [["a5"]])
    }))

  it.effect("keeps a key's batch the only one after all of its requests were given up", () =>
    Effect.gen(function*() {
      const { batches, begin, end } = yield* held({ startAt: [1, 1], isPerKey: true })
      for (const fiber of yield* begin("a1")) yield* Fiber.interrupt(fiber)
      const [expired] = yield* begin("a2")
      yield* TestClock.adjust("4600 millis")
      assert.strictEqual(yield* refusal(expired), "Unavailable")
      yield* begin("a3", "b1")
      assert.deepStrictEqual(batches(), [["a1"], ["b1"]])
      yield* end(0)
      assert.deepStrictEqual(batches().slice(2), [["a3"]])
    }))

  it.effect("answers the requests of a batch that failed with its defect, and runs the next batches", () =>
    Effect.gen(function*() {
      let isFaulty = true
      const { one } = yield* Batcher.make<string, string, never>({
        name: "test",
        keyOf: () => "",
        maxBatch: 1,
        maxPending: 10,
        startAt: [1],
        busy: "busy",
        run: ([pending]) =>
          isFaulty ? Effect.die("a fault") : Effect.sync(() => pending?.complete(Exit.succeed("answer")))
      })
      assert.deepStrictEqual(yield* Effect.exit(one("a")), Exit.die("a fault"))
      isFaulty = false
      assert.strictEqual(yield* one("b"), "answer")
    }))

  it.effect("answers the next reads after a batch that failed with a defect", () =>
    Effect.gen(function*() {
      let isFaulty = true
      const read = yield* Batcher.ofReads<string, string>({
        name: "test",
        keyOf: () => "",
        read: () => isFaulty ? Effect.die("a fault") : Effect.succeed(() => "answer")
      })
      assert.isTrue(Exit.isFailure(yield* Effect.exit(read("a"))))
      isFaulty = false
      assert.strictEqual(yield* read("b"), "answer")
    }))
})
