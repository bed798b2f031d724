import { Clock, Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import { eventColumns } from "./Load.ts"
import type { Lane } from "./Save.ts"
import type { StoredEvent } from "./State.ts"

/** Lanes that one transaction looks at, and events that it takes from all of them together. */
const maxLanes = 256
const maxEvents = 500

/**
 * While a snapshot is held open anywhere, PostgreSQL keeps the rows that were removed from the queue, and a look passes
 * over all of them. One that takes longer than this, in milliseconds, is not repeated before nine times its duration:
 * until then only the lanes are looked at that had work lately, each from where it was emptied. Who goes on looking may
 * set it; without it every look is complete.
 */
export const QuickLookMillis = Context.Reference<number>("@card-rewards/core/Processing/QuickLookMillis", {
  defaultValue: () => Number.POSITIVE_INFINITY
})

/** A look that is not quick is followed by so many times its duration without another one. */
const restsFor = 9n

/** Lanes that a process remembers, those with work most lately. */
const maxKnown = 1_024

/** How often it is found out up to where lanes are empty for good. */
const sampleNanos = 500_000_000n

interface LaneKey {
  readonly integratorId: string
  readonly lane: number
}

interface KnownLane extends LaneKey {
  /** Nothing is queued up to this arrival, and nothing will be. */
  start: bigint
  /** Up to this arrival nothing can come any more; what has come may still be queued. */
  settled: bigint
}

/** What a process remembers of the queue between its looks. Forgetting it costs time and nothing else. */
export class Memory {
  /** The lane that was looked at last: lanes are served in turn. */
  cursor: LaneKey = beforeAll
  /** Whether the last batch was full. */
  hasMore = false
  /** How long it took to look through the whole queue, and when that may be done again. */
  lookNanos = 0n
  restUntilNanos = 0n
  sampleAtNanos = 0n
  /** By lane, the one with work most lately last. */
  readonly known = new Map<string, KnownLane>()
  /** Up to where lanes were emptied since the last sample. */
  private emptied = new Map<string, bigint>()
  private sample: { readonly emptied: ReadonlyMap<string, bigint>; readonly writers: ReadonlySet<string> } | undefined

  /** Remembers lanes that have work. */
  meet(lanes: ReadonlyArray<LaneKey>): void {
    for (const { integratorId, lane } of lanes) {
      const key = keyOf({ integratorId, lane })
      const known = this.known.get(key) ?? { integratorId, lane, start: 0n, settled: 0n }
      this.known.delete(key)
      this.known.set(key, known)
    }
    for (const key of this.known.keys()) {
      if (this.known.size <= maxKnown) break
      this.known.delete(key)
    }
  }

  /** Of events that were taken in order, some left the queue, and that is committed. */
  leave(taken: ReadonlyArray<StoredEvent>, left: ReadonlyArray<StoredEvent>): void {
    const gone = new Set(left)
    const stuck = new Set<string>()
    for (const event of taken) {
      const key = keyOf(event)
      if (!gone.has(event)) stuck.add(key)
      else if (!stuck.has(key)) this.emptied.set(key, event.arrival)
    }
  }

  /** Up to where lanes were emptied, for the sample that is taken next. */
  takeEmptied(): ReadonlyMap<string, bigint> {
    const emptied = this.emptied
    this.emptied = new Map()
    return emptied
  }

  /**
   * Takes a sample: who writes to the queue, read after lanes were `emptied`. Numbers are given in order, but not
   * committed in order. Who inserts holds a lock on the queue from before it is given its numbers until it has committed.
   * So once all writers of a sample are gone, nothing can come any more before what had been emptied by then; what they
   * have written is there to be found, and only a look that finds nothing there any more moves a lane's start.
   */
  sampled(emptied: ReadonlyMap<string, bigint>, writers: ReadonlySet<string>): void {
    const before = this.sample
    if (before !== undefined && [...before.writers].some((writer) => writers.has(writer))) {
      this.emptied = new Map([...emptied, ...this.emptied])
      return
    }
    for (const [key, arrival] of before?.emptied ?? []) {
      const known = this.known.get(key)
      if (known !== undefined && known.settled < arrival) known.settled = arrival
    }
    this.sample = { emptied, writers }
  }

  /** Lanes were looked at, after they had settled so far, and first had work at these arrivals, or none. */
  looked(lanes: ReadonlyArray<KnownLane>, settled: ReadonlyArray<bigint>, first: (lane: LaneKey) => bigint | undefined): void {
    for (const [index, lane] of lanes.entries()) {
      const upTo = settled[index] ?? 0n
      const arrival = first(lane)
      if (lane.start < upTo && (arrival === undefined || arrival > upTo)) lane.start = upTo
    }
  }

  /** Once a look is quick there is nothing to be saved. */
  forget(): void {
    this.known.clear()
    this.emptied.clear()
    this.sample = undefined
  }
}

const beforeAll: LaneKey = { integratorId: "", lane: -1 }

const keyOf = ({ integratorId, lane }: LaneKey): string => `${integratorId}\0${lane}`

/** Locks the next lanes with work in turn; those that another process holds are passed over. */
export const lockLanes = Effect.fnUntraced(function*(memory: Memory) {
  const begun = yield* Clock.monotonicTimeNanos
  const rests = begun < memory.restUntilNanos && Number.isFinite(yield* QuickLookMillis)
  const all = rests ? yield* knownWithWork(memory, begun) : yield* lookThrough(memory, begun)
  // where there is more than a batch, even if it is all of one integrator, lanes are left for who decides meanwhile
  const found = memory.hasMore && all.length < maxLanes ? all.slice(0, Math.ceil(all.length / 2)) : all
  const last = found.at(-1)
  if (last === undefined) return []
  memory.cursor = last
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Lane>`
    SELECT l.integrator_id, l.lane, l.position
    FROM unnest(${columns.text(found.map((lane) => lane.integratorId))}, ${columns.int2(found.map((lane) => lane.lane))})
      AS t(integrator_id, lane)
    JOIN lanes l ON l.integrator_id = t.integrator_id AND l.lane = t.lane
    ORDER BY l.integrator_id, l.lane FOR UPDATE OF l SKIP LOCKED`
})

/** The next lanes with work of the whole queue. */
const lookThrough = Effect.fnUntraced(function*(memory: Memory, begun: bigint) {
  // another fiber need not do the same meanwhile
  memory.restUntilNanos = begun + restsFor * memory.lookNanos
  let found = yield* lanesWithWork(memory.cursor)
  if (found.length < maxLanes && memory.cursor !== beforeAll) {
    const known = new Set(found.map(keyOf))
    const first = yield* lanesWithWork(beforeAll)
    found = [...found, ...first.filter((lane) => !known.has(keyOf(lane)))].slice(0, maxLanes)
  }
  const ended = yield* Clock.monotonicTimeNanos
  const isSlow = Number(ended - begun) / 1e6 > (yield* QuickLookMillis)
  memory.lookNanos = isSlow ? ended - begun : 0n
  memory.restUntilNanos = ended + restsFor * memory.lookNanos
  if (isSlow) memory.meet(found)
  else memory.forget()
  return found
})

/** Skips from lane to lane through the queue's key, so that its cost is the number of lanes, not of events. */
const lanesWithWork = Effect.fnUntraced(function*(after: LaneKey) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<LaneKey>`
    WITH RECURSIVE found AS (
      (SELECT integrator_id, lane, 1 AS place FROM spend_event_queue
        WHERE (integrator_id, lane) > (${value.text(after.integratorId)}, ${value.int4(after.lane)})
        ORDER BY integrator_id, lane LIMIT 1)
      UNION ALL
      SELECT n.integrator_id, n.lane, f.place + 1 FROM found f CROSS JOIN LATERAL (
        SELECT integrator_id, lane FROM spend_event_queue q
        WHERE (q.integrator_id, q.lane) > (f.integrator_id, f.lane)
        ORDER BY q.integrator_id, q.lane LIMIT 1
      ) n WHERE f.place < ${value.int4(maxLanes)}
    ) SELECT integrator_id, lane FROM found`
})

/** The next of the lanes that had work lately and have some now. */
const knownWithWork = Effect.fnUntraced(function*(memory: Memory, now: bigint) {
  if (now >= memory.sampleAtNanos) {
    memory.sampleAtNanos = now + sampleNanos
    const emptied = memory.takeEmptied()
    memory.sampled(emptied, yield* writers)
  }
  const lanes = [...memory.known.values()].toSorted(byKey)
  const after = lanes.findIndex((lane) => byKey(lane, memory.cursor) > 0)
  const inTurn = after === -1 ? lanes : [...lanes.slice(after), ...lanes.slice(0, after)]
  const settled = inTurn.map((lane) => lane.settled)
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<LaneKey & { readonly arrival: bigint }>`
    SELECT t.integrator_id, t.lane, q.arrival FROM unnest(${columns.text(inTurn.map((lane) => lane.integratorId))},
      ${columns.int2(inTurn.map((lane) => lane.lane))}, ${columns.int8(inTurn.map((lane) => lane.start))})
      WITH ORDINALITY AS t(integrator_id, lane, start, place)
    CROSS JOIN LATERAL (
      SELECT q.arrival FROM spend_event_queue q
      WHERE q.integrator_id = t.integrator_id AND q.lane = t.lane AND q.arrival > t.start ORDER BY q.arrival LIMIT 1
    ) q ORDER BY t.place LIMIT ${value.int4(maxLanes)}`
  // a lane that is not among as many as are told may have work all the same
  const first = new Map(found.map((lane) => [keyOf(lane), lane.arrival]))
  const unseen = found.length < maxLanes ? undefined : 0n
  memory.looked(inTurn, settled, (lane) => first.get(keyOf(lane)) ?? unseen)
  return found
})

const byKey = (a: LaneKey, b: LaneKey): number =>
  a.integratorId < b.integratorId ? -1 : a.integratorId > b.integratorId ? 1 : a.lane - b.lane

/** The transactions that write to the queue at this moment. */
const writers = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ writer: string }>`
    SELECT virtualtransaction AS writer FROM pg_locks
    WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND relation = 'spend_event_queue'::regclass AND mode = 'RowExclusiveLock' AND pid <> pg_backend_pid()`
  return new Set(rows.map(({ writer }) => writer))
})

/** The first events of each locked lane, in order of arrival. */
export const takeEvents = Effect.fnUntraced(function*(memory: Memory, lanes: ReadonlyArray<LaneKey>) {
  const sql = yield* SqlClient.SqlClient
  const starts = lanes.map((lane) => memory.known.get(keyOf(lane))?.start ?? 0n)
  const taken = yield* sql<StoredEvent & { traceparent: string | null }>`
    SELECT ${sql.literal(eventColumns)}, q.traceparent
    FROM unnest(${columns.text(lanes.map((lane) => lane.integratorId))}, ${columns.int2(lanes.map((lane) => lane.lane))},
      ${columns.int8(starts)}) AS t(integrator_id, lane, start)
    CROSS JOIN LATERAL (
      SELECT * FROM spend_event_queue q
      WHERE q.integrator_id = t.integrator_id AND q.lane = t.lane AND q.arrival > t.start
      ORDER BY q.arrival LIMIT ${value.int4(Math.ceil(maxEvents / lanes.length))}
    ) q
    JOIN spend_events e ON e.integrator_id = q.integrator_id AND e.user_id = q.user_id AND e.kind = q.kind
      AND e.external_transaction_id = q.external_transaction_id
    ORDER BY e.integrator_id, e.lane, e.arrival`.withoutTransform
  memory.hasMore = taken.length >= maxEvents
  return taken
})
