import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns } from "../Database.ts"
import { expectFewRows, perRow } from "../Database/PlannerHints.ts"
import { limitLockWaits } from "../Database/SessionSettings.ts"
import { bool, columnList, int4, int8, nullable, type Row, rowVersion, text } from "../Database/Table.ts"
import { type LaneKey, laneKeyOf } from "../LaneKey.ts"
import { epochOf } from "../Slots.ts"
import * as Tables from "../Tables.ts"
import { purchaseAttributes, recordColumns } from "../Users/AttributeHistory.ts"
import { type EventWeights, maxUnits } from "./Budget.ts"
import type { OwnedLane } from "./LaneWatermarks.ts"
import type { ScanState } from "./Queue.ts"
import { lockedLane } from "./Save.ts"
import { type StoredEvent, storedEvents } from "./State.ts"

const takenEvents = columnList({
  ...storedEvents.columns,
  ...recordColumns.columns,
  segment_ctid: rowVersion.ctid,
  segment_xmin: rowVersion.xmin,
  segment_events: int4(),
  ordinal: int4(),
  traceparent: nullable(text()),
  has_dependents: bool(),
  programs_revision: int8()
})

/**
 * A queued event that a batch has taken, with the attributes of its user, its segment, the trace of the request that
 * stored it, and whether other events wait for it.
 */
export type TakenEvent = Row<typeof takenEvents>

/** Whether a statement skips rows that another transaction has locked, or waits for them. */
export type WhenLocked = "skip" | "wait"

/** An integrator's part of a batch: its first events of the locked lanes, in order of arrival. */
export interface Part {
  readonly integratorId: IntegratorId
  /** As of the moment when the events were read, so that it covers what was published before they were stored. */
  readonly programsRevision: bigint
  readonly queued: ReadonlyArray<TakenEvent>
}

const laneKeys = Tables.lanes.pick("integrator_id", "lane")
const lockedLanes = columnList({ ...lockedLane.columns, epoch: int4() })
const lanesToRead = columnList({ ...laneKeys.columns, watermark: int8(), max_events: int4() })

/** Milliseconds for which a transaction waits for a lock. Most locks are held for less than a tenth of it. */
export const lockMillis = 500

/**
 * Locks lanes until the transaction ends, and returns those that it locked, in the given order. Lanes that another
 * transaction has locked are skipped, or waited for; lanes of slots that the cell does not own are skipped. Limits this
 * and each later lock wait of the transaction to {@link lockMillis}.
 */
export const lockLanes = Effect.fnUntraced(function*(lanes: ReadonlyArray<LaneKey>, whenLocked: WhenLocked) {
  const sql = yield* SqlClient.SqlClient
  const locked = lockedLanes.rows(yield* sql`
    WITH limited AS MATERIALIZED (SELECT ${limitLockWaits(lockMillis)})
    SELECT ${lockedLane.of("l")}, o.epoch
    FROM limited CROSS JOIN ${laneKeys.unnest(lanes)} JOIN lanes l ON ${laneKeys.match("l", "t")}
    CROSS JOIN LATERAL (SELECT ${epochOf("t.integrator_id")} AS epoch ${perRow}) o
    WHERE ${expectFewRows} AND o.epoch IS NOT NULL
    ORDER BY l.integrator_id, l.lane FOR UPDATE OF l ${sql.literal(whenLocked === "skip" ? "SKIP LOCKED" : "")}`.values)
  const lockedByKey = new Map(locked.map((lane) => [laneKeyOf(lane), lane]))
  return lanes.flatMap((lane) => lockedByKey.get(laneKeyOf(lane)) ?? [])
})

/**
 * Locks the vaults that no other transaction has locked. Returns the others by integrator, each with the id of the
 * transaction that has locked it.
 */
export const lockFreeVaults = Effect.fnUntraced(function*(integratorIds: Iterable<string>) {
  const sql = yield* SqlClient.SqlClient
  const ids = [...integratorIds]
  const free = yield* sql<{ integratorId: string }>`
    SELECT integrator_id FROM vaults WHERE integrator_id = ANY(${columns.text(ids)})
    ORDER BY integrator_id FOR UPDATE SKIP LOCKED`
  if (free.length === ids.length) return new Map<string, string>()
  const locked = new Set(free.map((row) => row.integratorId))
  // PostgreSQL stores the transaction that has locked a row in the row's xmax
  const others = yield* sql<{ integratorId: string; holder: string }>`
    SELECT integrator_id, xmax::text AS holder FROM vaults
    WHERE integrator_id = ANY(${columns.text(ids.filter((id) => !locked.has(id)))})`
  return new Map(others.map(({ holder, integratorId }) => [integratorId, holder]))
})

/**
 * Takes the first events of each locked lane, by integrator in the order of the lanes. Integrators share the batch's
 * budget equally; of each, as many events are read as its share is expected to suffice for. `isBatchFull` says whether
 * these events are expected to use up the budget.
 */
export const takeEvents = Effect.fnUntraced(function*(
  state: ScanState,
  weights: EventWeights,
  lanes: ReadonlyArray<OwnedLane>
) {
  const sql = yield* SqlClient.SqlClient
  const byIntegrator = Map.groupBy(lanes, ({ integratorId }) => integratorId)
  const share = Math.ceil(maxUnits / byIntegrator.size)
  const toRead = [...byIntegrator].flatMap(([integratorId, own]) => {
    const maxEvents = Math.ceil(share / weights.of(integratorId) / own.length)
    return own.map((lane) => ({ ...lane, watermark: state.watermarks.watermarkOf(lane), maxEvents }))
  })
  const values = yield* sql`
    SELECT ${storedEvents.of("e")}, ${recordColumns.of("a")}, q.segment_ctid, q.segment_xmin,
      q.segment_events, q.ordinal, q.traceparent, (
        -- ORDER BY and LIMIT leave the planner only the primary key
        SELECT w.arrival FROM spend_event_waits w WHERE w.integrator_id = e.integrator_id AND w.user_id = e.user_id
          AND w.original_kind = e.kind AND w.original_id = e.external_transaction_id ORDER BY w.occurred_at LIMIT 1
      ) IS NOT NULL AS has_dependents, i.programs_revision
    FROM ${lanesToRead.unnest(toRead)}
    CROSS JOIN LATERAL (
      SELECT i.programs_revision FROM integrators i WHERE i.integrator_id = t.integrator_id ${perRow}
    ) i
    CROSS JOIN LATERAL (
      SELECT t.integrator_id, s.ctid AS segment_ctid, s.xmin AS segment_xmin, cardinality(s.kinds) AS segment_events,
        s.traceparent, generate_subscripts(s.kinds, 1) AS ordinal, unnest(s.user_ids) AS user_id,
        unnest(s.kinds) AS kind, unnest(s.external_transaction_ids) AS external_transaction_id
      FROM (
        SELECT *, ctid, xmin FROM spend_event_queue q
        WHERE q.integrator_id = t.integrator_id AND q.lane = t.lane AND q.arrival > t.watermark
        ORDER BY q.arrival
      ) s LIMIT t.max_events
    ) q
    CROSS JOIN LATERAL (
      SELECT *, ctid, xmin FROM spend_events e WHERE ${Tables.spendEventKey.match("e", "q")} ${perRow}
    ) e ${sql.literal(purchaseAttributes)}`.values
  const taken = takenEvents.rows(values)
  state.watermarks.observeArrivals(taken.map((event) => event.arrival))
  const isBatchFull = taken.reduce((units, event) => units + weights.of(event.integratorId), 0) >= maxUnits
  const events = Map.groupBy<string, TakenEvent>(taken, ({ integratorId }) => integratorId)
  const parts = [...byIntegrator.keys()].flatMap((id): ReadonlyArray<Part> => {
    const queued = events.get(id)?.toSorted(byArrival) ?? []
    const [first] = queued
    return first === undefined
      ? []
      : [{ integratorId: first.integratorId, programsRevision: first.programsRevision, queued }]
  })
  return { parts, isBatchFull }
})

const byArrival = (a: StoredEvent, b: StoredEvent): number => a.arrival < b.arrival ? -1 : a.arrival > b.arrival ? 1 : 0
