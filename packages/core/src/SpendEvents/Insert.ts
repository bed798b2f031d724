import { laneCount, laneOf } from "@card-rewards/domain/Lane"
import { futureToleranceMillis, originalOf, type SpendEvent } from "@card-rewards/domain/SpendEvent"
import { Clock, Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { columns } from "../Database/Columns.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { columnList, int4, type Written } from "../Database/Table.ts"
import { insertedSegments, segmentColumns } from "../Processing/Segments.ts"
import { areOwned } from "../Slots.ts"
import { storedContents } from "../StoredSpendEvent.ts"
import * as Tables from "../Tables.ts"

/** A spend event that is to be stored. */
export interface Post {
  readonly request: SpendEvent
  /** As that of `Batcher.Pending`. */
  readonly traceparent: string | null
}

/**
 * After an event that was stored already, the number of inserts without another one that expect such events. The others
 * insert without `ON CONFLICT`, which takes PostgreSQL 0.75 to 0.83 of the time, and are repeated where one was stored.
 */
const expectingInserts = 20

/** What the inserts of one process share. */
export interface Repeats {
  /** The number of inserts that are to expect events that are stored already. */
  expecting: number
}

/** An event that was not stored, by its position in the insert. */
export interface NotStored {
  readonly ord: number
  readonly known: boolean
  readonly same: boolean | null
  readonly enrolled: boolean
  readonly future: boolean
  /** Whether the cell owns the slots of all events of the insert; otherwise it has stored none. */
  readonly owned: boolean
}

/** The columns of a spend event that a post sets. */
const sent = columnList({ ...storedContents.columns, ...Tables.spendEvents.pick("lane").columns })
/** The columns that must be equal in a repeated post. Nullable columns are compared with IS NOT DISTINCT FROM. */
const contents = sent.pick("currency", "cents", "descriptor", "mcc", "occurred_at")
const { integrator_id: integrator, ...ofEvent } = { ord: int4(), ...sent.columns }
/** The input of one integrator's insert; of that of several, with their ids and the position of each one's clock. */
const ofOne = columnList(ofEvent)
const ofMany = columnList({ integrator_id: integrator, clock: int4(), ...ofEvent })
const traces = Tables.spendEventQueue.pick("traceparent").columns
const inputs = {
  plain: { ofOne, ofMany },
  traced: {
    ofOne: columnList({ ...ofOne.columns, ...traces }),
    ofMany: columnList({ ...ofMany.columns, ...traces })
  }
}
const queued = columnList({ ...Tables.spendEventKey.columns, ...Tables.spendEvents.pick("lane", "arrival").columns })

const rowOf = (
  { request: event, traceparent }: Post,
  ord: number,
  clock: number
): Written<typeof inputs.traced.ofMany> => ({
  ord,
  clock,
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
})

/**
 * Stores and queues new events, in one statement. Returns those that it did not store: those that are stored already,
 * compared, those that are refused, and those that a concurrent insert stored.
 */
export const insert = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>, repeats: Repeats) {
  if (repeats.expecting === 0) {
    const inserted = yield* Effect.result(insertRows(posts, ""))
    if (Result.isSuccess(inserted)) return inserted.success
    if (inserted.failure.reason._tag !== "UniqueViolation") return yield* inserted.failure
  }
  const rows = yield* insertRows(posts, "ON CONFLICT DO NOTHING")
  repeats.expecting = rows.some(({ known }) => known) ? expectingInserts : Math.max(0, repeats.expecting - 1)
  return rows
})

/** Fails with `UniqueViolation` where an event is stored already, unless `onConflict` is `ON CONFLICT DO NOTHING`. */
const insertRows = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>, onConflict: string) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const integratorIds = [...new Set(posts.map(({ request }) => request.integratorId))]
  const clocks = new Map(integratorIds.map((id, index) => [id, index + 1]))
  const rows = posts.map((post, ord) => rowOf(post, ord, clocks.get(post.request.integratorId) ?? 0))
  const isTraced = posts.some(({ traceparent }) => traceparent !== null)
  const perLane = new Map<number, number>()
  for (const { clock, lane } of rows) {
    const key = clock * laneCount + lane
    perLane.set(key, (perLane.get(key) ?? 0) + 1)
  }
  const columnsOf = isTraced ? inputs.traced : inputs.plain
  const [onlyId, ...otherIds] = integratorIds
  return yield* sql<NotStored>`
    WITH input AS (
      ${
    otherIds.length === 0
      ? sql`SELECT ${value.text(onlyId)} AS integrator_id, 1 AS clock, t.* FROM ${columnsOf.ofOne.unnest(rows)}`
      : sql`SELECT * FROM ${columnsOf.ofMany.unnest(rows)}`
  }
    ), ownership AS (
      SELECT ${areOwned(integratorIds)} AS owned
    ), clocks AS (
      SELECT array_agg(now ORDER BY clock) AS times,
        array_agg(now + ${value.int4(futureToleranceMillis)} * interval '1 millisecond' ORDER BY clock) AS latest
      FROM unnest(${columns.text(integratorIds)}) WITH ORDINALITY AS t(integrator_id, clock)
      -- index look-ups row by row, whatever the statistics say: the tables may grow from empty within minutes
      LEFT JOIN LATERAL (
        SELECT ${value.timestamptz(real)} + i.clock_offset_millis * interval '1 millisecond' AS now
        FROM integrators i WHERE i.integrator_id = t.integrator_id ${perRow}
      ) i ON true
    ), judged AS (
      SELECT t.*, u.user_id IS NOT NULL AS enrolled,
        t.occurred_at > (SELECT latest FROM clocks)[t.clock] AS future
      FROM input t LEFT JOIN LATERAL (
        SELECT u.user_id FROM users u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id ${perRow}
      ) u ON true
    ), stored AS (
      INSERT INTO spend_events (${sent.names}, arrival, received_at)
      SELECT ${sent.names}, arrival, (SELECT times FROM clocks)[clock]
      FROM (
        SELECT *, nextval('arrivals') AS arrival
        FROM (SELECT * FROM judged WHERE enrolled AND NOT future ORDER BY ord) in_order
        WHERE (SELECT owned FROM ownership)
      ) arrived
      ORDER BY ${Tables.spendEventKey.names}
      ${sql.literal(onConflict)}
      RETURNING ${queued.names}
    ), queued AS (
      INSERT INTO spend_event_queue (${sql.literal(segmentColumns)})
      ${insertedSegments("stored", isTraced ? "input" : undefined, [...perLane.values()])}
    )
    SELECT t.ord, e.user_id IS NOT NULL AS known,
      (${contents.of("e")}) = (${contents.of("t")})
        AND e.mid IS NOT DISTINCT FROM t.mid AND e.country IS NOT DISTINCT FROM t.country
        AND e.original_id IS NOT DISTINCT FROM t.original_id AS same,
      t.enrolled, t.future, (SELECT owned FROM ownership) AS owned
    FROM judged t LEFT JOIN LATERAL (
      SELECT * FROM spend_events e WHERE ${Tables.spendEventKey.match("e", "t")} ${perRow}
    ) e ON true
    -- mostly all are stored, and none is looked for
    WHERE (SELECT count(*) FROM stored) < ${value.int4(posts.length)}
      AND (${Tables.spendEventKey.of("t")}) NOT IN (SELECT ${Tables.spendEventKey.of("s")} FROM stored s)`
})
