import { submitAll } from "@card-rewards/client/Batches"
import * as Promised from "@card-rewards/client/promise"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"

interface Event {
  readonly id: number
  readonly text?: string
}

/** A service that answers each event, and refuses a batch that begins with `broken`. */
const service = (broken?: number) => {
  const batches: Array<ReadonlyArray<number>> = []
  const submit = ({ events }: { readonly events: ReadonlyArray<Event> }) => {
    if (events[0]?.id === broken) throw new Error("away")
    batches.push(events.map(({ id }) => id))
    return { results: events.map(({ id }) => ({ status: id % 2 === 0 ? 202 : 422 })) }
  }
  return { batches, submit }
}

const events = (count: number): ReadonlyArray<Event> => Array.from({ length: count }, (_, id) => ({ id }))

describe("submitAll", () => {
  it.effect("gives each event's result, in order, of batches as large as is asked", () =>
    Effect.gen(function*() {
      for (const count of [0, 1, 4, 5, 9]) {
        const { batches, submit } = service()
        const found = yield* submitAll(
          Stream.fromIterable(events(count)),
          (payload) => Effect.sync(() => submit(payload)),
          { batchSize: 4 }
        ).pipe(Stream.runCollect)
        assert.deepStrictEqual(
          found,
          events(count).map((event) => ({ index: event.id, event, result: { status: event.id % 2 === 0 ? 202 : 422 } }))
        )
        assert.deepStrictEqual(batches.map(({ length }) => length), [4, 4, 1].slice(0, Math.ceil(count / 4)).map(
          (length, index) => Math.min(length, count - 4 * index)
        ))
      }
    }))

  it("takes 500 events, or a million bytes, at once, and no more than is asked for", async () => {
    const { batches, submit } = service()
    let taken = 0
    async function* history() {
      for (let id = 0;; id++) {
        taken++
        yield { id, text: "é".repeat(id < 2_000 ? 1 : 2_000) }
      }
    }
    let count = 0
    for await (const _ of Promised.submitAll(history(), (payload) => Promise.resolve(submit(payload)))) {
      if (++count === 501) break
    }
    assert.deepStrictEqual(batches.map(({ length }) => length), [500, 500])
    assert.isBelow(taken, 1_600)
    const later = Promised.submitAll(history(), (payload) => Promise.resolve(submit(payload)), { from: 2_000 })
    for await (const _ of later) {
      if (++count === 1_002) break
    }
    assert.isAtLeast(batches.length, 4)
    for (const { length } of batches.slice(2, 4)) {
      assert.isAbove(length, 200)
      assert.isAtMost(length * 4_000, 1_000_000)
    }
  })

  it("reads no more of a source without promises than it submits, and closes it when the loop is left", async () => {
    const { submit } = service()
    let taken = 0
    let isClosed = false
    function* history() {
      try {
        for (let id = 0;; id++) {
          taken++
          yield { id }
        }
      } finally {
        isClosed = true
      }
    }
    const options = { batchSize: 3 }
    for await (const _ of Promised.submitAll(history(), async (payload) => submit(payload), options)) break
    assert.isTrue(isClosed)
    assert.isAtMost(taken, 9)
  })

  it("submits a full batch at once, however late the next event comes", async () => {
    const { batches, submit } = service()
    async function* history() {
      yield* events(6)
      await new Promise(() => {})
    }
    const options = { batchSize: 3 }
    let count = 0
    for await (const _ of Promised.submitAll(history(), async (payload) => submit(payload), options)) {
      if (++count === 6) break
    }
    assert.deepStrictEqual(batches, [[0, 1, 2], [3, 4, 5]])
  })

  it("throws what a batch or the source throws, and goes on from there", async () => {
    const { batches, submit } = service(8)
    const indexes: Array<number> = []
    const load = async (from: number, source: Iterable<Event>, send = submit) => {
      try {
        const options = { batchSize: 4, from }
        for await (const { index } of Promised.submitAll(source, async (payload) => send(payload), options)) {
          indexes.push(index)
        }
        return undefined
      } catch (error) {
        return String(error)
      }
    }
    assert.strictEqual(await load(0, events(10)), "Error: away")
    assert.strictEqual(await load((indexes.at(-1) ?? -1) + 1, events(10), service().submit), undefined)
    assert.deepStrictEqual(indexes, events(10).map(({ id }) => id))
    assert.strictEqual(batches.length, 2)
    const failing = async function*() {
      yield { id: 0 }
      throw new Error("unreadable")
    }
    const { submit: other } = service()
    const reading = async () => {
      for await (const _ of Promised.submitAll(failing(), async (payload) => other(payload)));
    }
    assert.strictEqual(await reading().catch(String), "Error: unreadable")
  })
})
