import type { SqlClient, Statement } from "effect/sql"
import { atVersion } from "../Database/PlannerHints.ts"
import { columnList, int4, literal, rowVersion, type Written } from "../Database/Table.ts"
import type { Change } from "../Database/Together.ts"

/*
 * A row of `spend_event_queue` is a *segment*: events that one insert stored in one lane, in order of arrival. With a
 * row for each event an insert of 500 cost a fifth more. The segments of an insert have arrivals after those of all
 * events that were stored when it began. So a reader of segments in order, and of each from its start, reads a user's
 * events in the order in which they were sent one after another.
 */

/**
 * The maximum number of events of a segment. A batch that takes a part of one writes the others again, so that this
 * also limits what an integrator that stores many events of one user at once costs in each batch. The table has a check
 * of it.
 */
export const maxSegment = 64

/** SQL for all queued events: `integrator_id`, `lane`, `user_id`, `kind` and `external_transaction_id`. */
export const queuedEvents = `(
  SELECT integrator_id, lane, unnest(user_ids) AS user_id, unnest(kinds) AS kind,
    unnest(external_transaction_ids) AS external_transaction_id
  FROM spend_event_queue
)`

/** The columns of {@link insertedSegments}. */
export const segmentColumns = "integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids, traceparent"

/**
 * SQL for the segments of the events that an insert has stored. `stored` names the query with their keys, lanes and
 * arrivals, `traces` one with their arrivals and traces, absent where no event has a trace: where one has, each event
 * has a segment of its own. `perLane` is the largest number of events of one lane.
 */
export const insertedSegments = (
  stored: string,
  traces: string | undefined,
  perLane: number
): Statement.Fragment => {
  const sorted = (column: string) => `array_agg(s.${column} ORDER BY s.arrival)`
  // so many arrivals in a row have no more events of one lane
  const parts = perLane > maxSegment ? `, s.arrival / ${maxSegment}` : ""
  return literal(
    traces === undefined
      ? `SELECT s.integrator_id, s.lane, min(s.arrival), ${sorted("user_id")}, ${sorted("kind")},
          ${sorted("external_transaction_id")}, NULL
        FROM ${stored} s GROUP BY s.integrator_id, s.lane${parts}`
      : `SELECT s.integrator_id, s.lane, s.arrival, ARRAY[s.user_id], ARRAY[s.kind], ARRAY[s.external_transaction_id],
          t.traceparent
        FROM ${stored} s JOIN ${traces} t USING (arrival)`
  )
}

/** Where an event is in the queue. */
export interface InSegment {
  /** The version of its segment's row. */
  readonly segmentCtid: number
  readonly segmentXmin: number
  /** The number of events of the segment, and which of them this is, from 1. */
  readonly segmentEvents: number
  readonly ordinal: number
}

const segment = columnList(rowVersion)
const taken = columnList({ ...rowVersion, ordinal: int4() })

/** The changes that remove events, which the transaction has read under the locks of their lanes, from the queue. */
export const removal = (sql: SqlClient.SqlClient, events: ReadonlyArray<InSegment>): ReadonlyArray<Change> => {
  const whole: Array<Written<typeof segment>> = []
  const parts: Array<Written<typeof taken>> = []
  const segments = [...Map.groupBy(events, ({ segmentCtid }) => segmentCtid).values()]
  for (const own of segments) {
    const rows = own.map(({ ordinal, segmentCtid: ctid, segmentXmin: xmin }) => ({ ctid, xmin, ordinal }))
    if (rows.length === own[0]?.segmentEvents) whole.push(...rows.slice(0, 1))
    else parts.push(...rows)
  }
  const remove = {
    table: "spend_event_queue",
    rows: whole.length,
    change: sql`DELETE FROM spend_event_queue q USING ${segment.unnest(whole)} WHERE ${atVersion("q")}`
  }
  return parts.length === 0 ? [remove] : [remove, shortening(sql, parts, segments.length - whole.length)]
}

/** Removes a part of the events of each of `rows` segments. Most batches take whole segments. */
const shortening = (sql: SqlClient.SqlClient, parts: ReadonlyArray<Written<typeof taken>>, rows: number): Change => ({
  table: "spend_event_queue",
  rows,
  change: sql`UPDATE spend_event_queue q SET (user_ids, kinds, external_transaction_ids) = (
      SELECT array_agg(e.user_id ORDER BY e.ordinal), array_agg(e.kind ORDER BY e.ordinal),
        array_agg(e.external_transaction_id ORDER BY e.ordinal)
      FROM unnest(q.user_ids, q.kinds, q.external_transaction_ids)
        WITH ORDINALITY AS e(user_id, kind, external_transaction_id, ordinal)
      WHERE e.ordinal <> ALL (t.ordinals)
    )
    FROM (SELECT ctid, xmin, array_agg(ordinal) AS ordinals FROM ${taken.unnest(parts)} GROUP BY ctid, xmin) t
    WHERE ${atVersion("q")}`
})
