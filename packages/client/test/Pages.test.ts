import { type EventsRequest, follow, items, logItems } from "@card-rewards/client/Pages"
import * as Promised from "@card-rewards/client/promise"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"

/** A list of `count` numbers in pages of three, and the cursors that were requested. */
const listOf = (count: number) => {
  const cursors: Array<string | undefined> = []
  const page = ({ cursor }: { readonly cursor?: string }) => {
    cursors.push(cursor)
    const from = Number(cursor ?? 0)
    const numbers = Array.from({ length: Math.min(3, count - from) }, (_, index) => from + index)
    return { numbers, ...(from + 3 < count && { next: `${from + 3}` }) }
  }
  return { cursors, page }
}

/** The first `count` values of an async iterable. */
const collect = <A>(iterable: AsyncIterable<A>, count = Number.POSITIVE_INFINITY) =>
  Effect.promise(async () => {
    const all: Array<A> = []
    for await (const item of iterable) if (all.push(item) >= count) break
    return all
  })

describe("items", () => {
  it.effect("are those of every page, once and in order, even if the last page is empty", () =>
    Effect.gen(function*() {
      for (const count of [0, 1, 3, 4, 7, 9]) {
        const { cursors, page } = listOf(count)
        const all = Array.from({ length: count }, (_, index) => index)
        assert.deepStrictEqual(yield* Stream.runCollect(items((query) => Effect.sync(() => page(query)))), all)
        assert.deepStrictEqual(cursors, [undefined, "3", "6"].slice(0, Math.max(1, Math.ceil(count / 3))))
        assert.deepStrictEqual(yield* collect(Promised.items((query) => Promise.resolve(page(query)))), all)
      }
    }))

  it.effect("are read when the consumer needs them", () =>
    Effect.gen(function*() {
      const { cursors, page } = listOf(9)
      yield* items((query) => Effect.sync(() => page(query))).pipe(Stream.take(4), Stream.runDrain)
      assert.deepStrictEqual(cursors, [undefined, "3"])
      const promised = listOf(9)
      yield* collect(Promised.items((query) => Promise.resolve(promised.page(query))), 4)
      assert.deepStrictEqual(promised.cursors, [undefined, "3"])
    }))

  it.effect("end with the error with which a page was rejected", () =>
    Effect.gen(function*() {
      const error = new Error("no page")
      const thrown = yield* Effect.promise(async () => {
        try {
          for await (const _ of Promised.items((): Promise<{ next?: string }> => Promise.reject(error)));
        } catch (caught) {
          return caught
        }
        return undefined
      })
      assert.strictEqual(thrown, error)
    }))
})

/** An event log that grows: its events at the first, second, … request. */
const logOf = (...held: ReadonlyArray<number>) => {
  let requests = 0
  return ({ after = 0n }: EventsRequest) => {
    const count = held[Math.min(requests++, held.length - 1)] ?? 0
    const length = Math.min(2, Math.max(0, count - Number(after)))
    const events = Array.from({ length }, (_, index) => Number(after) + index + 1)
    return { events, next: after + BigInt(events.length) }
  }
}

describe("follow", () => {
  it.effect("returns every event once and in order, and pauses only after an empty page", () =>
    Effect.gen(function*() {
      const read = logOf(3, 3, 3, 3, 5)
      const pages: Array<ReadonlyArray<number>> = []
      const fiber = yield* follow((query) => Effect.sync(() => read(query)), { idleMillis: 1_000 }).pipe(
        Stream.runForEach(({ events }) => Effect.sync(() => pages.push(events))),
        Effect.forkChild
      )
      yield* TestClock.adjust(1_999)
      assert.deepStrictEqual(pages, [[1, 2], [3]])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(pages, [[1, 2], [3], [4, 5]])
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("starts after the given position", () =>
    Effect.gen(function*() {
      const read = logOf(4)
      const pages = follow((query) => Effect.sync(() => read(query)), { after: 1n })
      assert.deepStrictEqual(yield* pages.pipe(Stream.take(2), Stream.runCollect), [
        { events: [2, 3], next: 3n },
        { events: [4], next: 4n }
      ])
      const again = logOf(4)
      const promised = yield* collect(Promised.follow((query) => Promise.resolve(again(query)), { after: 1n }), 2)
      assert.deepStrictEqual(promised.map(({ events }) => events), [[2, 3], [4]])
    }))
})

describe("logItems", () => {
  it.effect("are those behind a position up to the end, once and in order", () =>
    Effect.gen(function*() {
      const page = ({ after = 0n }: EventsRequest) => {
        const numbers = [1n, 2n, 3n, 4n, 5n].filter((number) => number > after).slice(0, after === 0n ? 1 : 2)
        return { numbers, next: numbers.at(-1) ?? after }
      }
      const read = (query: EventsRequest) => Effect.sync(() => page(query))
      assert.deepStrictEqual(yield* Stream.runCollect(logItems(read)), [1n, 2n, 3n, 4n, 5n])
      assert.deepStrictEqual(yield* Stream.runCollect(logItems(read, { after: 3n })), [4n, 5n])
      const promised = Promised.logItems((query) => Promise.resolve(page(query)))
      assert.deepStrictEqual(yield* collect(promised, 3), [1n, 2n, 3n])
    }))
})
