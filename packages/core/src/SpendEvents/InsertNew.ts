import { laneCount } from "@card-rewards/domain/Lane"
import { Clock, Effect, Struct } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { columns, value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { limitLockWaits } from "../Database/SessionSettings.ts"
import { columnList, int4, text, type Written } from "../Database/Table.ts"
import { maxSegment, segmentColumns } from "../Processing/Segments.ts"
import { areOwned } from "../Slots.ts"
import * as Tables from "../Tables.ts"
import { byLockOrder, clocks, type Input, input, inputOf, isInFuture, type Post, sent } from "./Input.ts"

/** The columns of the input where all events are of one integrator. */
const ofOne = columnList(Struct.omit(input.columns, ["integrator_id", "clock"]))

/** A segment: `ord` is that of its first event, and its lists are literals of arrays. */
const segment = columnList({
  ord: int4(),
  ...Tables.spendEventQueue.pick("integrator_id", "lane", "traceparent").columns,
  user_ids: text(),
  kinds: text(),
  external_transaction_ids: text()
})

/** Milliseconds for which an insert waits for a lock, of which that of an event that a batch changes is held longer. */
const lockMillis = 20

/**
 * Stores and queues events in one statement if all of them are new and none is refused. Otherwise it stores none, and
 * returns false, or fails with `UniqueViolation` or `LockTimeoutError`.
 */
export const insertNew = Effect.fnUntraced(function*(posts: ReadonlyArray<Post>) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const { integratorIds, rows } = inputOf(posts)
  const [result] = yield* sql<{ readonly stored: boolean }>`
    WITH input AS (
      ${selected(sql, integratorIds, rows.toSorted(byLockOrder))}
    ), ${clocks(sql, integratorIds, real)}, numbers AS (
      -- in ascending order
      SELECT array_agg(nextval('arrivals')) AS arrivals FROM generate_series(1, ${value.int4(rows.length)})
    ), accepted AS (
      SELECT ${limitLockWaits(lockMillis)} <> '' AND ${areOwned(integratorIds)}
        AND ${areEnrolled(sql, integratorIds, rows)}
        AND NOT EXISTS (SELECT FROM input t WHERE ${isInFuture}) AS are_all
    ), stored AS (
      INSERT INTO spend_events (${sent.names}, arrival, received_at)
      SELECT ${sent.names}, (SELECT arrivals FROM numbers)[ord + 1], (SELECT times FROM clocks)[clock]
      FROM input WHERE (SELECT are_all FROM accepted)
    ), queued AS (
      INSERT INTO spend_event_queue (${sql.literal(segmentColumns)})
      SELECT integrator_id, lane, (SELECT arrivals FROM numbers)[ord + 1], ${queuedLists(sql, rows)}
      WHERE (SELECT are_all FROM accepted)
    )
    SELECT are_all AS stored FROM accepted`
  return result?.stored === true
})

/** Whether all users are enrolled. For one integrator the users of a page of the index are found by one look-up. */
const areEnrolled = (
  sql: SqlClient.SqlClient,
  [first, ...others]: ReadonlyArray<string>,
  rows: ReadonlyArray<Input>
): Statement.Fragment => {
  if (others.length > 0) {
    return sql`NOT EXISTS (
        SELECT FROM input t LEFT JOIN LATERAL (
          SELECT u.user_id FROM users u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id ${perRow}
        ) u ON true
        WHERE u.user_id IS NULL
      )`
  }
  const userIds = [...new Set(rows.map(({ userId }) => userId))]
  return sql`(SELECT count(*) FROM users u WHERE u.integrator_id = ${value.text(first)}
        AND u.user_id = ANY(${columns.text(userIds)})) = ${value.int4(userIds.length)}`
}

const selected = (
  sql: SqlClient.SqlClient,
  [first, ...others]: ReadonlyArray<string>,
  rows: ReadonlyArray<Input>
): Statement.Fragment =>
  others.length === 0
    ? sql`SELECT ${value.text(first)} AS integrator_id, 1 AS clock, t.* FROM ${ofOne.unnest(rows)}`
    : sql`SELECT * FROM ${input.unnest(rows)}`

/**
 * The lists and traces of segments, and where they are read. Where each event has a segment of its own, as with many
 * integrators, PostgreSQL makes the lists.
 */
const queuedLists = (sql: SqlClient.SqlClient, rows: ReadonlyArray<Input>): Statement.Fragment => {
  const segments = segmentsOf(rows)
  return segments.length === rows.length
    ? sql`ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id], traceparent FROM input`
    : sql`user_ids::text[], kinds::text[], external_transaction_ids::text[], traceparent
        FROM ${segment.unnest(segments.map(written))}`
}

/** Events of one segment, in order of arrival. */
type Segment = [first: Input, ...others: Array<Input>]

/** The segments of events in order of arrival; each event with a trace has one of its own. */
const segmentsOf = (rows: ReadonlyArray<Input>): ReadonlyArray<Segment> => {
  const segments: Array<Segment> = []
  const lanes = new Map<number, Segment>()
  for (const row of rows) {
    const isTraced = row.traceparent !== null
    const lane = row.clock * laneCount + row.lane
    const open = isTraced ? undefined : lanes.get(lane)
    if (open !== undefined && open.length < maxSegment) open.push(row)
    else {
      const events: Segment = [row]
      segments.push(events)
      if (!isTraced) lanes.set(lane, events)
    }
  }
  return segments
}

const written = (events: Segment): Written<typeof segment> => ({
  ...Struct.pick(events[0], ["ord", "integratorId", "lane", "traceparent"]),
  userIds: arrayOf(events, ({ userId }) => userId),
  kinds: arrayOf(events, ({ kind }) => kind),
  externalTransactionIds: arrayOf(events, ({ externalTransactionId }) => externalTransactionId)
})

/** A literal of an array of texts, `{"one","two"}`: PostgreSQL has no arrays of arrays of different lengths. */
const arrayOf = (events: Segment, textOf: (event: Input) => string): string =>
  `{${events.map((event) => `"${textOf(event).replace(/["\\]/g, "\\$&")}"`).join(",")}}`
