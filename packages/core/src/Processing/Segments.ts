import { type SqlClient, Statement } from "effect/sql"
import { byKey } from "../Database/PlannerHints.ts"
import { columnList, int4, int8, type Written } from "../Database/Table.ts"
import * as Tables from "../Tables.ts"
import type { LaneKey } from "./LaneWatermarks.ts"

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
 * arrivals, `traces` the one with their keys and traces, absent where no event has a trace: where one has, each event
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
  return Statement.fragment([Statement.literal(
    traces === undefined
      ? `SELECT s.integrator_id, s.lane, min(s.arrival), ${sorted("user_id")}, ${sorted("kind")},
          ${sorted("external_transaction_id")}, NULL
        FROM ${stored} s GROUP BY s.integrator_id, s.lane${parts}`
      : `SELECT s.integrator_id, s.lane, s.arrival, ARRAY[s.user_id], ARRAY[s.kind], ARRAY[s.external_transaction_id],
          t.traceparent
        FROM ${stored} s JOIN ${traces} t USING (integrator_id, user_id, kind, external_transaction_id)`
  )])
}

/** Where an event is in the queue. */
export interface InSegment extends LaneKey {
  /** The arrival that its segment has as its key in the lane. */
  readonly firstArrival: bigint
  /** The number of events of the segment, and which of them this is, from 1. */
  readonly segmentEvents: number
  readonly ordinal: number
}

const segmentKey = columnList({ ...Tables.lanes.pick("integrator_id", "lane").columns, arrival: int8() })
const ordinalsDone = columnList({ ...segmentKey.columns, ordinal: int4() })

const bySegment = (events: ReadonlyArray<InSegment>): ReadonlyArray<ReadonlyArray<InSegment>> =>
  [...Map.groupBy(events, ({ integratorId }) => integratorId).values()]
    .flatMap((own) => [...Map.groupBy(own, ({ lane }) => lane).values()])
    .flatMap((own) => [...Map.groupBy(own, ({ firstArrival }) => firstArrival).values()])

/** The changes that remove events from the queue. The caller has locked their lanes. */
export const removal = (
  sql: SqlClient.SqlClient,
  events: ReadonlyArray<InSegment>
): ReadonlyArray<Statement.Fragment> => {
  const found = byKey("spend_event_queue", "q", segmentKey)
  const whole: Array<Written<typeof segmentKey>> = []
  const parts: Array<Written<typeof ordinalsDone>> = []
  for (const own of bySegment(events)) {
    const rows = own.map(({ firstArrival, integratorId, lane, ordinal }) =>
      ({ integratorId, lane, arrival: firstArrival, ordinal }))
    if (rows.length === own[0]?.segmentEvents) whole.push(...rows.slice(0, 1))
    else parts.push(...rows)
  }
  return [
    sql`DELETE FROM spend_event_queue q USING ${segmentKey.unnest(whole)} ${found}`,
    ...(parts.length === 0 ? [] : [shortening(sql, parts, found)])
  ]
}

/** Removes a part of each segment's events. Most batches take whole segments. */
const shortening = (
  sql: SqlClient.SqlClient,
  parts: ReadonlyArray<Written<typeof ordinalsDone>>,
  found: Statement.Fragment
): Statement.Fragment =>
  sql`UPDATE spend_event_queue q SET (user_ids, kinds, external_transaction_ids) = (
      SELECT array_agg(e.user_id ORDER BY e.ordinal), array_agg(e.kind ORDER BY e.ordinal),
        array_agg(e.external_transaction_id ORDER BY e.ordinal)
      FROM unnest(q.user_ids, q.kinds, q.external_transaction_ids)
        WITH ORDINALITY AS e(user_id, kind, external_transaction_id, ordinal)
      WHERE e.ordinal <> ALL (t.ordinals)
    )
    FROM (
      SELECT ${segmentKey.names}, array_agg(ordinal) AS ordinals FROM ${ordinalsDone.unnest(parts)}
      GROUP BY ${segmentKey.names}
    ) t ${found}`
