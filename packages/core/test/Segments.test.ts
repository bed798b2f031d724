import { together } from "@card-rewards/core/Database/Together"
import { EventWeights } from "@card-rewards/core/Processing/Budget"
import { findLanes, maxLanes, ScanState } from "@card-rewards/core/Processing/Queue"
import * as Segments from "@card-rewards/core/Processing/Segments"
import { lockLanes, takeEvents } from "@card-rewards/core/Processing/Take"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { type IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { laneCount, laneOf } from "@card-rewards/domain/Lane"
import { spendEvent } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { newIntegrator, startMillis } from "./TestLayer.ts"
import { moneyLayer } from "./Spending.ts"

const users = Array.from({ length: 40 }, (_, index) => UserId.make(`user-${index}`))

/** An integrator with {@link users}, and a function that sends a list of events, one for each given user. */
const setUp = Effect.gen(function*() {
  const integratorId = yield* newIntegrator
  const service = yield* Users
  for (const userId of users) yield* service.put(integratorId, userId, {})
  const { submitAll } = yield* SpendEvents
  let sent = 0
  const send = Effect.fnUntraced(function*(senders: ReadonlyArray<UserId>) {
    const events = senders.map((userId) => ({ userId, id: `t${sent++}` }))
    yield* submitAll(events.map(clearing))
    last = events.at(-1)
    return events
  })
  const clearing = ({ id, userId }: { readonly id: string; readonly userId: UserId }) =>
    spendEvent(integratorId, userId, startMillis, { kind: "clearing", externalTransactionId: id })
  let last: Parameters<typeof clearing>[0] | undefined
  /** Sends the last event again: the next inserts expect repeated events. */
  const repeat = Effect.suspend(() => last === undefined ? Effect.void : submitAll([clearing(last)]))
  return { integratorId, repeat, send }
})

/**
 * Takes events as a batch does in which an event is expected to make `weight` units of work, and removes those of which
 * `isDone` says so.
 */
const take = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  weight: number,
  isDone: (index: number) => boolean
) {
  const sql = yield* SqlClient.SqlClient
  const weights = new EventWeights()
  for (let times = 0; times < 20; times++) weights.observe(integratorId, weight, 1)
  return yield* sql.withTransaction(Effect.gen(function*() {
    const state = new ScanState()
    const lanes = yield* lockLanes(yield* findLanes(state, maxLanes), "wait")
    if (lanes.length === 0) return []
    const { parts } = yield* takeEvents(state, weights, lanes)
    const taken = parts.flatMap(({ queued }) => queued)
    yield* together(Segments.removal(sql, taken.filter((_, index) => isDone(index))))
    return taken.map(({ externalTransactionId: id, userId }, index) => ({ id, userId, isDone: isDone(index) }))
  }))
})

const queueRows = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ events: number }>`SELECT cardinality(kinds) AS events FROM spend_event_queue
    WHERE integrator_id = ${integratorId} ORDER BY events`
  return rows.map(({ events }) => events)
})

const Step = Schema.Struct({
  isRepeated: Schema.Boolean,
  senders: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 }))),
  copies: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 30 })),
  weight: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 101 })),
  modulus: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 4 }))
})

layer(moneyLayer)("the segments of an insert", (it) => {
  // the first insert expects no repeated event: no other test shares the layer
  it.effect.each([false, true])("are one for each lane, of 64 events at most; after a repeat: %s", (isAfter) =>
    Effect.gen(function*() {
      if (isAfter) {
        const repeated = yield* setUp
        yield* repeated.send(users.slice(0, 1))
        yield* repeated.repeat
      }
      const { integratorId, send } = yield* setUp
      const lanes = new Set(users.map(laneOf))
      assert.strictEqual(lanes.size, laneCount)
      yield* send(Array.from({ length: 10 }, () => users).flat())
      const rows = yield* queueRows(integratorId)
      assert.lengthOf(rows, laneCount)
      assert.strictEqual(rows.reduce((sum, events) => sum + events, 0), 400)

      const other = yield* setUp
      yield* other.send(Array.from({ length: 500 }, () => UserId.make("user-0")))
      const own = yield* queueRows(other.integratorId)
      assert.isAtMost(Math.max(...own), Segments.maxSegment)
      assert.isAtMost(own.length, Math.ceil(500 / Segments.maxSegment) + 1)
      const third = yield* setUp
      yield* third.send(users.slice(0, 20))
      assert.lengthOf(yield* queueRows(third.integratorId), new Set(users.slice(0, 20).map(laneOf)).size)
    }))
})

layer(moneyLayer)("the segments of the queue", (it) => {
  it.effect.prop(
    "keep each event until it is removed, and the order of a user's events",
    [Schema.Array(Step)],
    ([steps]) =>
      Effect.gen(function*() {
        const { integratorId, repeat, send } = yield* setUp
        const left = new Map(users.map((userId): [string, Array<string>] => [userId, []]))
        const takeAndCompare = Effect.fnUntraced(function*(weight: number, modulus: number) {
          const taken = yield* take(integratorId, weight, (index) => index % modulus === 0)
          for (const [userId, own] of Map.groupBy(taken, (event) => event.userId)) {
            const before = left.get(userId) ?? []
            assert.deepStrictEqual(own.map(({ id }) => id), before.slice(0, own.length))
            const done = new Set(own.filter(({ isDone }) => isDone).map(({ id }) => id))
            left.set(userId, before.filter((id) => !done.has(id)))
          }
          return taken.length
        })
        for (const { copies, isRepeated, modulus, senders, weight } of steps) {
          if (isRepeated) yield* repeat
          // each of the users several times in turn, so that they share inserts, lanes and segments
          const list = Array.from({ length: copies }, () => senders).flat().flatMap((index) => users[index] ?? [])
          for (const { id, userId } of yield* send(list.slice(0, 500))) left.get(userId)?.push(id)
          yield* takeAndCompare(weight, modulus)
        }
        while ((yield* takeAndCompare(1, 1)) > 0) { /* until nothing is left */ }
        assert.deepStrictEqual([...left.values()].flat(), [])
        assert.deepStrictEqual(yield* queueRows(integratorId), [])
      }),
    { arbitrary: { runs: 40 } }
  )
})
