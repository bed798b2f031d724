import { Clock, Context, Effect, Exit } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { columns, value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { literal } from "../Database/Table.ts"
import { byLaneKey, type LaneKey, laneKeyOf } from "../LaneKey.ts"
import { epochOf, isOwned } from "../Slots.ts"
import { firstWhole, LaneShares, maxParallel } from "./LaneShares.ts"
import { LaneWatermarks, type ScannedLane } from "./LaneWatermarks.ts"

/** The maximum number of lanes of one batch. */
export const maxLanes = 512

/**
 * Scans of the whole queue that take longer than this number of milliseconds, and again as long for each
 * {@link lanesInTime} lanes that they find, are slow: while any transaction holds a snapshot, PostgreSQL keeps the dead
 * rows of the queue, and each scan has to skip all of them. While scans are slow, each is followed by a pause of nine
 * times the duration of the quickest of the last {@link scansCompared}, in which only lanes that had work recently are
 * scanned, each from its watermark. The worker's loops set the limit; by default no scan is slow.
 */
export const SlowScanMillis = Context.Reference<number>("@card-rewards/core/Processing/SlowScanMillis", {
  defaultValue: () => Number.POSITIVE_INFINITY
})

/** About as many lanes as a scan without dead rows finds in the 5 ms that workers set. */
const lanesInTime = 256

/** Duration of the pause after a slow scan, as a multiple of the scan's duration. */
const scanPauseFactor = 9n

/**
 * Dead rows make every scan slow. A busy machine makes some slow, of all fibers at the same time: more than there are
 * fibers are compared, so that no lane waits for the end of a pause because of them.
 */
const scansCompared = maxParallel + 1

/** The minimum time between two samples of the writers. */
const sampleNanos = 500_000_000n

/** How long what a scan found may be used: about as long as a batch takes. */
const knownNanos = 100_000_000n

/** Whether an integrator is in quarantine: joint batches leave its lanes alone. */
const isQuarantined = (alias: string): Statement.Fragment =>
  literal(`EXISTS (SELECT FROM quarantine z WHERE z.integrator_id = ${alias}.integrator_id)`)

const beforeAll: LaneKey = { integratorId: "", lane: -1 }

/** What a process knows of the queue between scans; its fibers share one object. */
export class ScanState {
  readonly watermarks = new LaneWatermarks()
  readonly shares = new LaneShares()
  /**
   * The next scan begins after this lane: the last one that a batch took, or, where the budget did not suffice for all,
   * the last one that it processed.
   */
  cursor: LaneKey = beforeAll
  /** All lanes with work when they were last scanned, in order; empty where the scan may have left out some. */
  known: ReadonlyArray<LaneKey> = []
  /** The lanes of the last scan that no batch has taken yet, where there were more than one batch may take. */
  left: ReadonlyArray<LaneKey> = []
  /** How long {@link known} and {@link left} may be used. */
  knownUntilNanos = 0n
  /** Whether the events that the last batch took were expected to use up its budget. */
  isBatchFull = false
  /** Duration of a scan of the whole queue while scans are slow, else 0; and when the next such scan may begin. */
  scanNanos = 0n
  pauseUntilNanos = 0n
  /** Durations of the last {@link scansCompared} scans of the whole queue. */
  private lastScans: ReadonlyArray<bigint> = Array.from({ length: scansCompared }, () => 0n)
  sampleAtNanos = 0n

  /** Records a scan of the whole queue that found so many lanes. Returns whether scans are slow. */
  recordScan(startedNanos: bigint, endedNanos: bigint, lanes: number, slowMillis: number): boolean {
    this.lastScans = [...this.lastScans.slice(1), endedNanos - startedNanos]
    const quickest = this.lastScans.reduce((least, nanos) => nanos < least ? nanos : least)
    const isSlow = Number(quickest) / 1e6 > slowMillis * (1 + lanes / lanesInTime)
    this.scanNanos = isSlow ? quickest : 0n
    this.pauseUntilNanos = endedNanos + scanPauseFactor * this.scanNanos
    return isSlow
  }

  /**
   * Takes the lanes of the next batch, at most `limit`, from those that {@link findLanes} returned; where there is more
   * work than one batch may do, a share of them. They are in flight until {@link LaneShares.release}.
   */
  take(found: ReadonlyArray<LaneKey>, limit: number): ReadonlyArray<LaneKey> {
    const { left, taken } = this.shares.take(found, limit, this.isBatchFull)
    this.left = left
    // the scan after one that found all lanes finds all of them with one statement
    if (left.length > 0 || this.known.length === 0) this.cursor = taken.at(-1) ?? this.cursor
    return taken
  }

  /** Lets the next scan begin after this lane. */
  continueAfter(lane: LaneKey): void {
    this.cursor = lane
    this.left = []
  }

  /** Forgets what the last scan found, so that the next step scans again. */
  forget(): void {
    this.known = []
    this.left = []
  }

  /** Makes the next scan one of the whole queue, without watermarks: after an error they may no longer hold. */
  reset(): void {
    this.forget()
    this.watermarks.reset()
    this.scanNanos = 0n
    this.pauseUntilNanos = 0n
  }
}

/**
 * Returns the next lanes with work, round robin, of integrators that are not in quarantine. A scan finds the lanes of
 * {@link maxParallel} batches of `limit` lanes: within {@link knownNanos} the next ones take what it has left. While
 * batches are full, so that their lanes keep having work, the result of a scan that found all lanes is used again.
 */
export const findLanes = Effect.fnUntraced(function*(state: ScanState, limit: number) {
  const startedNanos = yield* Clock.monotonicTimeNanos
  if (startedNanos < state.knownUntilNanos) {
    if (state.isBatchFull && state.known.length > 0) return fromCursor(state.known, state.cursor)
    const { left } = state
    state.left = []
    if (left.length > 0) return left
  }
  const isPaused = startedNanos < state.pauseUntilNanos && Number.isFinite(yield* SlowScanMillis)
  const scan = isPaused ? scanRecent : scanAll
  const scanned = yield* scan(state, startedNanos, maxParallel * limit)
  const areAll = scanned.length < maxParallel * limit
  // of the last integrator, the scan may have left out some lanes
  const found = areAll ? scanned : firstWhole(scanned, scanned.length - 1)
  state.known = areAll ? found.toSorted(byLaneKey) : []
  state.knownUntilNanos = startedNanos + knownNanos
  state.cursor = (areAll ? undefined : found.at(-1)) ?? beforeAll
  return found
})

/** The lanes after the cursor, then the others; given and returned in order. */
const fromCursor = <Lane extends LaneKey>(lanes: ReadonlyArray<Lane>, cursor: LaneKey): ReadonlyArray<Lane> => {
  const after = lanes.findIndex((lane) => byLaneKey(lane, cursor) > 0)
  return after === -1 ? lanes : [...lanes.slice(after), ...lanes.slice(0, after)]
}

/** Returns the next lanes with work, of the whole queue. */
const scanAll = Effect.fnUntraced(function*(state: ScanState, startedNanos: bigint, limit: number) {
  // keeps other fibers from scanning the whole queue at the same time
  state.pauseUntilNanos = startedNanos + scanPauseFactor * state.scanNanos
  const { cursor } = state
  let found = yield* scanFrom(cursor, limit)
  if (found.length < limit && cursor !== beforeAll) {
    const known = new Set(found.map(laneKeyOf))
    const first = yield* scanFrom(beforeAll, limit)
    found = [...found, ...first.filter((lane) => !known.has(laneKeyOf(lane)))].slice(0, limit)
  }
  const endedNanos = yield* Clock.monotonicTimeNanos
  if (state.recordScan(startedNanos, endedNanos, found.length, yield* SlowScanMillis)) state.watermarks.remember(found)
  else state.watermarks.forgetLanes()
  return found
})

/**
 * Loose index scan over the queue's primary key: its cost is proportional to the lanes with work, not to the events. An
 * integrator in quarantine costs one step, whatever the number of its lanes.
 */
const scanFrom = Effect.fnUntraced(function*(after: LaneKey, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const isSetAside = sql`(${isQuarantined("q")} OR NOT ${isOwned("q.integrator_id")}) AS is_set_aside`
  return yield* sql<LaneKey>`
    WITH RECURSIVE found AS (
      SELECT first.*, CASE WHEN first.is_set_aside THEN 0 ELSE 1 END AS number FROM (
        SELECT q.integrator_id, q.lane, ${isSetAside} FROM spend_event_queue q
        WHERE (q.integrator_id, q.lane) > (${value.text(after.integratorId)}, ${value.int4(after.lane)})
        ORDER BY q.integrator_id, q.lane LIMIT 1
      ) first
      UNION ALL
      SELECT next.*, f.number + CASE WHEN next.is_set_aside THEN 0 ELSE 1 END FROM found f CROSS JOIN LATERAL (
        SELECT q.integrator_id, q.lane, ${isSetAside} FROM spend_event_queue q
        WHERE (q.integrator_id, q.lane) >
          (f.integrator_id, CASE WHEN f.is_set_aside THEN 32767::smallint ELSE f.lane END)
        ORDER BY q.integrator_id, q.lane LIMIT 1
      ) next WHERE f.number < ${value.int4(limit)}
    ) SELECT integrator_id, lane FROM found WHERE NOT is_set_aside`
})

/** Returns the next lanes with work, of those that the last slow scans of the whole queue found. */
const scanRecent = Effect.fnUntraced(function*(state: ScanState, now: bigint, limit: number) {
  if (now >= state.sampleAtNanos) {
    state.sampleAtNanos = now + sampleNanos
    yield* sampleWriters(state.watermarks)
  }
  const { closedArrival } = state.watermarks
  const lanes = fromCursor(state.watermarks.list().toSorted(byLaneKey), state.cursor)
  const sql = yield* SqlClient.SqlClient
  const scan = yield* sql<ScannedLane & { readonly isQuarantined: boolean }>`
    SELECT t.integrator_id, t.lane, o.epoch, q.arrival,
      q.arrival IS NOT NULL AND ${isQuarantined("t")} AS is_quarantined
    FROM unnest(${columns.text(lanes.map((lane) => lane.integratorId))},
      ${columns.int2(lanes.map((lane) => lane.lane))}, ${columns.int8(lanes.map((lane) => lane.watermark))},
      ${columns.int4(lanes.map((lane) => lane.epoch))})
      WITH ORDINALITY AS t(integrator_id, lane, watermark, epoch, ordinal)
    CROSS JOIN LATERAL (SELECT ${epochOf("t.integrator_id")} AS epoch ${perRow}) o
    LEFT JOIN LATERAL (
      SELECT q.arrival FROM spend_event_queue q
      WHERE q.integrator_id = t.integrator_id AND q.lane = t.lane
        AND q.arrival > CASE WHEN o.epoch = t.epoch THEN t.watermark ELSE 0 END
      ORDER BY q.arrival LIMIT 1
    ) q ON true
    WHERE o.epoch IS NOT NULL ORDER BY t.ordinal`
  const byLane = new Map(scan.map((lane) => [laneKeyOf(lane), lane]))
  state.watermarks.scanned(lanes, closedArrival, (lane) => byLane.get(laneKeyOf(lane)))
  return scan.filter((lane) => lane.arrival !== null && !lane.isQuarantined).slice(0, limit)
})

/** Reads which transactions are writing to the queue, unless another fiber is reading them. */
const sampleWriters = Effect.fnUntraced(function*(watermarks: LaneWatermarks) {
  const sql = yield* SqlClient.SqlClient
  const started = watermarks.beginSample()
  if (started === undefined) return
  const reading = sql<{ writer: string }>`
    SELECT virtualtransaction AS writer FROM pg_locks
    WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND relation = 'spend_event_queue'::regclass AND mode = 'RowExclusiveLock' AND pid <> pg_backend_pid()`
  yield* Effect.onExit(reading, (exit) =>
    Effect.sync(() => {
      const writers = Exit.isSuccess(exit) ? new Set(exit.value.map(({ writer }) => writer)) : undefined
      watermarks.endSample(started, writers)
    }))
})

/** Returns all lanes of an integrator that have work. */
export const lanesOf = Effect.fnUntraced(function*(integratorId: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<LaneKey>`
    SELECT l.integrator_id, l.lane FROM lanes l WHERE l.integrator_id = ${integratorId} AND EXISTS (
      SELECT FROM spend_event_queue q WHERE q.integrator_id = l.integrator_id AND q.lane = l.lane
    ) ORDER BY l.lane`
})
