import { laneOf } from "@card-rewards/domain/Lane"
import { futureToleranceMillis, originalOf, type SpendEvent } from "@card-rewards/domain/SpendEvent"
import type { SqlClient, Statement } from "effect/sql"
import { columns, value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { columnList, int4, literal, type Written } from "../Database/Table.ts"
import { storedContents } from "../StoredSpendEvent.ts"
import * as Tables from "../Tables.ts"

/** A spend event that is to be stored. */
export interface Post {
  readonly request: SpendEvent
  /** As that of `Batcher.Pending`. */
  readonly traceparent: string | null
}

/** The columns of a spend event that a post sets. */
export const sent = columnList({ ...storedContents.columns, ...Tables.spendEvents.pick("lane").columns })

/** A row of an insert's input: `ord` is the position of its post, and `clock` that of its integrator's times. */
export const input = columnList({
  ord: int4(),
  clock: int4(),
  ...sent.columns,
  ...Tables.spendEventQueue.pick("traceparent").columns
})
export type Input = Written<typeof input>

/** The input of posts in their order, and its integrators in the order of their clocks, which count from 1. */
export const inputOf = (posts: ReadonlyArray<Post>) => {
  const integratorIds = [...new Set(posts.map(({ request }) => request.integratorId))]
  const clocks = new Map(integratorIds.map((id, index) => [id, index + 1]))
  const rows = posts.map(({ request: event, traceparent }, ord): Input => ({
    ord,
    clock: clocks.get(event.integratorId) ?? 0,
    integratorId: event.integratorId,
    userId: event.userId,
    kind: event.kind,
    externalTransactionId: event.externalTransactionId,
    lane: laneOf(event.userId),
    currency: event.amount.currency,
    cents: event.amount.amount,
    descriptor: event.merchant.descriptor,
    mcc: event.merchant.mcc,
    mid: event.merchant.mid,
    country: event.merchant.country,
    occurredAt: event.occurredAt,
    originalId: originalOf(event)?.externalTransactionId,
    traceparent
  }))
  return { integratorIds, rows }
}

/** Map key of an event's identity, the tuple that the contract defines. Ids contain no NUL. */
const identityOf = (event: SpendEvent): string =>
  `${event.integratorId}\0${event.userId}\0${event.kind}\0${event.externalTransactionId}`

/** For each post the position of the first one with the same identity. */
export const firstsOf = (posts: ReadonlyArray<Post>): ReadonlyArray<number> => {
  const firsts = new Map<string, number>()
  return posts.map(({ request }, ord) => {
    const identity = identityOf(request)
    const first = firsts.get(identity)
    if (first !== undefined) return first
    firsts.set(identity, ord)
    return ord
  })
}

/** Whether two events of one identity have the same content, as columns are compared for stored ones. */
export const haveSameContents = (a: SpendEvent, b: SpendEvent): boolean =>
  a.amount.currency === b.amount.currency && a.amount.amount === b.amount.amount &&
  a.merchant.descriptor === b.merchant.descriptor && a.merchant.mcc === b.merchant.mcc &&
  a.merchant.mid === b.merchant.mid && a.merchant.country === b.merchant.country && a.occurredAt === b.occurredAt &&
  originalOf(a)?.externalTransactionId === originalOf(b)?.externalTransactionId

/** The order of keys, in which all inserts lock them. */
export const byLockOrder = (a: Input, b: Input): number =>
  compare(a.integratorId, b.integratorId) || compare(a.externalTransactionId, b.externalTransactionId) ||
  compare(a.userId, b.userId) || compare(a.kind, b.kind)

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0

/**
 * SQL for `clocks`: the times at which events are received by the integrators' clocks, as an array in the order of the
 * integrators. `real` is the real time in milliseconds.
 */
export const clocks = (
  sql: SqlClient.SqlClient,
  integratorIds: ReadonlyArray<string>,
  real: number
): Statement.Fragment =>
  sql`clocks AS (
      SELECT array_agg(
        ${value.timestamptz(real)} + coalesce(i.clock_offset_millis, 0) * interval '1 millisecond' ORDER BY clock
      ) AS times
      FROM unnest(${columns.text(integratorIds)}) WITH ORDINALITY AS t(integrator_id, clock)
      -- index look-ups row by row, whatever the statistics say: the tables may grow from empty within minutes
      LEFT JOIN LATERAL (
        SELECT i.clock_offset_millis FROM integrators i
        -- few clocks were moved, and only those are in the index that serves this
        WHERE i.integrator_id = t.integrator_id AND i.clock_offset_millis > 0 ${perRow}
      ) i ON true
    )`

/** SQL for whether the event `t` occurred too far after it is received by the time in {@link clocks}. */
export const isInFuture: Statement.Fragment = literal(
  `t.occurred_at - interval '${futureToleranceMillis} milliseconds' > (SELECT times FROM clocks)[t.clock]`
)
