import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Data, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../Database.ts"
import type { LaneKey } from "../LaneKey.ts"
import * as Ledger from "../Ledger.ts"
import * as Metrics from "../Metrics.ts"
import type { Programs } from "../Programs.ts"
import * as Tracing from "../Tracing.ts"
import { type BatchOutcome, type DecidablePart, decideParts, type Decision, maxDependents } from "./Batch.ts"
import { type EventWeights, fairShare } from "./Budget.ts"
import * as Load from "./Load.ts"
import type { ScanState } from "./Queue.ts"
import * as Save from "./Save.ts"
import * as Segments from "./Segments.ts"
import type { StoredEvent } from "./State.ts"
import { lockFreeVaults, lockLanes, type Part, type TakenEvent, takeEvents, type WhenLocked } from "./Take.ts"

/** State that the batches of one process share. */
export interface Shared {
  readonly programs: Programs["Service"]
  readonly scan: ScanState
  readonly weights: EventWeights
}

/** Which lanes a batch processes, and its limits. */
export interface BatchOptions {
  /** Lanes with work, in the order in which their integrators are served. */
  readonly lanes: ReadonlyArray<LaneKey>
  /** Whether to skip lanes that another transaction has locked, or to wait {@link lockMillis} for them. */
  readonly lockedLanes: WhenLocked
  /**
   * Whether to skip integrators whose vault another transaction has locked, or to wait {@link lockMillis} for it. With
   * `skip` the vaults are locked before the events are read, with `wait` after these are decided, for a shorter time.
   */
  readonly lockedVaults: WhenLocked
  /** The deadline in milliseconds of each transaction, after which it is interrupted and rolled back. */
  readonly deadlineMillis: number
  /** The budget in units of work; {@link maxUnits} when absent. With 1 a transaction applies one event. */
  readonly maxUnits?: number
}

/** What a batch committed, and what it left in the queue. */
export interface BatchResult {
  /** Units of work done (see Budget.ts), and the number of integrators for whose events versions were loaded. */
  readonly units: number
  /** The integrators of which events were decided and saved, in order. */
  readonly served: ReadonlyArray<IntegratorId>
  /** Whether all integrators with events were served, or failed, before the budget was used up. */
  readonly areAllServed: boolean
  /** Whether the events taken are as much work as one batch may do, so that the queue probably holds more. */
  readonly isBatchFull: boolean
  /** The errors of integrators whose decision threw. All of their events are still queued. */
  readonly failed: ReadonlyMap<IntegratorId, unknown>
  /** Integrators that were skipped because another transaction had locked their vault, with that transaction's id. */
  readonly locked: ReadonlyMap<string, string>
}

/** Another session had locked a lane or a vault for longer than {@link lockMillis}. */
export class LockTimeout extends Data.TaggedError("LockTimeout") {}

/** A transaction of the batch exceeded its deadline and was rolled back. */
export class DeadlineExceeded extends Data.TaggedError("DeadlineExceeded") {}

/** A bug, a broken row, or an SQL error that a retry cannot help. It does not name the integrator that caused it. */
export class Defect extends Data.TaggedError("Defect")<{ readonly error: unknown }> {}

/**
 * Processes a batch: decides stored events of some lanes in one transaction, then loads program versions that deferred
 * events need. Where the transaction could apply nothing without these versions, it runs a second time.
 */
export const processBatch = (shared: Shared, options: BatchOptions) =>
  Effect.flatMap(commitAndLoad(shared, options), (first) =>
    first.loaded > 0 && first.result.units === 0 ? commitAndLoad(shared, options) : Effect.succeed(first)).pipe(
      Effect.map(({ loaded, result }): BatchResult => ({ ...result, units: result.units + loaded })),
      Effect.catchDefect((error) => Effect.fail(new Defect({ error })))
    )

const commitAndLoad = Effect.fnUntraced(function*(shared: Shared, options: BatchOptions) {
  const sql = yield* SqlClient.SqlClient
  const transaction = Effect.catchReason(
    sql.withTransaction(takeAndApply(shared, options)),
    "SqlError",
    "LockTimeoutError",
    () => Effect.fail(new LockTimeout())
  )
  const { deferred, lanes, work, ...result } = yield* Database.withDeadline(
    options.deadlineMillis,
    transaction,
    () => Effect.fail(new DeadlineExceeded())
  )
  for (const [integratorId, { events, units }] of work) shared.weights.observe(integratorId, units, events)
  return { result, loaded: yield* shared.programs.load(lanes, deferred) }
})

interface Committed extends BatchResult {
  readonly work: Decision["work"]
  /** The lanes of the decided events. */
  readonly lanes: ReadonlyArray<Pick<StoredEvent, "integratorId" | "lane">>
  readonly deferred: BatchOutcome["deferred"]
}

const nothing: Committed = {
  units: 0,
  served: [],
  areAllServed: true,
  isBatchFull: false,
  failed: new Map(),
  locked: new Map(),
  work: new Map(),
  lanes: [],
  deferred: []
}

/**
 * Locks the lanes, takes their first events, and decides and saves these, in the caller's transaction. Each step is an
 * effect that returns the next one: what has been read and decided is garbage while PostgreSQL executes the statement
 * that saves it, the longest part of a batch.
 */
const takeAndApply = (shared: Shared, options: BatchOptions) => Effect.flatten(take(shared, options))

const take = Effect.fnUntraced(function*(shared: Shared, options: BatchOptions) {
  if (options.lanes.length === 0) return Effect.succeed(nothing)
  const ownLanes = yield* lockLanes(options.lanes, options.lockedLanes)
  const locked = options.lockedVaults === "skip"
    ? yield* lockFreeVaults(new Set(ownLanes.map((lane) => lane.integratorId)))
    : nothing.locked
  const lanes = ownLanes.filter((lane) => !locked.has(lane.integratorId))
  if (lanes.length === 0) return Effect.succeed({ ...nothing, locked })
  const { isBatchFull, parts } = yield* takeEvents(shared.scan, shared.weights, lanes)
  if (parts.length === 0) return Effect.succeed({ ...nothing, locked })
  const origins = () => parts.flatMap(({ queued }) => queued.map((event) => event.traceparent))
  return Tracing.startDeferred(origins)(Effect.flatten(decide(shared, options, { isBatchFull, lanes, locked, parts })))
})

const appliedEvents = Metrics.counter("card_rewards.spend_events.applied", "{event}", "Spend events that were applied")

interface Taken extends Pick<BatchResult, "isBatchFull" | "locked"> {
  readonly lanes: ReadonlyArray<Save.Lane>
  readonly parts: ReadonlyArray<Part>
}

const decide = Effect.fnUntraced(function*(
  { programs }: Shared,
  options: BatchOptions,
  { isBatchFull, lanes, locked, parts }: Taken
) {
  const catalogs = yield* programs.catalogsAt(parts)
  const loaded = yield* readDependentsOf(parts)
  const { areAllRead, decidable: decidableOf, state } = yield* Load.readState(loaded, catalogs)
  const decidable = loaded.parts.flatMap((part): ReadonlyArray<DecidablePart> => {
    const queued = decidableOf(part.queued)
    return queued.length === 0 ? [] : [{ ...part, queued }]
  })
  const { decided, failed, outcome, work } = decideParts(state, decidable, options.maxUnits)
  const groups = state.groups.all().filter(({ integratorId }) => !failed.has(integratorId))
  const open = options.lockedVaults === "skip" ? Ledger.openLocked : Ledger.lockAndOpen
  const books = yield* applyVaultChanges(outcome, open)
  const done = new Set<StoredEvent>(outcome.done)
  const sql = yield* SqlClient.SqlClient
  const save = yield* Ledger.prepareWrite(books, [
    ...Save.changes(sql, { state, groups, outcome, lanes }),
    ...Segments.removal(sql, parts.flatMap(({ queued }) => queued.filter((event) => done.has(event))))
  ])
  yield* Metrics.afterCommit(() => Metrics.addByKind(appliedEvents, outcome.applied))
  const committed: Committed = {
    units: [...work.values()].reduce((sum, one) => sum + one.units, 0),
    served: [...work.keys()],
    areAllServed: work.size + failed.size === parts.length,
    isBatchFull: isBatchFull || !areAllRead,
    failed,
    locked,
    work,
    lanes: lanesOf(decided),
    deferred: outcome.deferred
  }
  return Effect.as(save, committed)
})

/** The lanes of events, each once. */
const lanesOf = (events: ReadonlyArray<StoredEvent>): Committed["lanes"] =>
  [...Map.groupBy(events, ({ integratorId }) => integratorId)].flatMap(([integratorId, own]) =>
    [...new Set(own.map(({ lane }) => lane))].map((lane) => ({ integratorId, lane })))

interface Loaded extends Omit<Load.Dependents, "areAllRead"> {
  readonly parts: ReadonlyArray<DecidablePart>
}

/**
 * Reads the dependents of the events of all parts. Where these are too many for one batch, reads them part by part,
 * each with an equal share of the remaining limit. Parts for which nothing remains are absent from the result.
 */
const readDependentsOf = Effect.fnUntraced(function*(parts: ReadonlyArray<Part>) {
  const queued = parts.flatMap((part) => part.queued)
  const joint = yield* Load.readDependents(queued, maxDependents)
  if (joint.areAllRead) {
    return { ...joint, queued, parts: parts.map((part) => ({ ...part, maxDependents })) } satisfies Loaded
  }
  const taken: Array<TakenEvent> = []
  const loaded: Array<DecidablePart> = []
  const waiting = new Map<string, Array<StoredEvent>>()
  const partlyApplied = new Map<string, string>()
  let left = maxDependents
  for (const [index, part] of parts.entries()) {
    const { integratorId, queued } = part
    if (left <= 0) break
    const share = fairShare(left, parts.length - index)
    const own = yield* Load.readDependents(queued, share)
    for (const [key, dependents] of own.waiting) {
      waiting.set(key, dependents)
      left -= dependents.length
    }
    for (const [user, clearing] of own.partlyApplied) partlyApplied.set(user, clearing)
    taken.push(...own.queued)
    loaded.push({ integratorId, queued: own.queued, maxDependents: share })
  }
  return { queued: taken, waiting, partlyApplied, parts: loaded } satisfies Loaded
})

/** Carries out the changes of a batch on the vaults, and returns their books. */
const applyVaultChanges = Effect.fnUntraced(function*({ vaultChanges }: BatchOutcome, open: typeof Ledger.lockAndOpen) {
  if (vaultChanges.length === 0) return []
  const byIntegrator = Map.groupBy(vaultChanges, ({ event }) => event.integratorId)
  const touched = [...byIntegrator].map(([integratorId, own]): Ledger.Touched => ({
    integratorId,
    userIds: new Set(own.map(({ event }) => event.userId)),
    clearings: own.flatMap(({ change }) => change.kind === "refund" ? [change] : [])
  }))
  const books = yield* open(touched)
  for (const [integratorId, own] of byIntegrator) {
    const book = books.get(integratorId)
    if (book === undefined) return yield* Effect.die(new Error("an integrator without a vault"))
    let last: StoredEvent | undefined
    for (const { change, event } of own) {
      const isFirst = event !== last
      last = event
      if (book.isBehind && isFirst) {
        const behind = touched.filter((one) => one.integratorId === integratorId)
        return yield* new Ledger.Behind({ touched: behind, became: "during" })
      }
      if (change.kind === "refund") yield* Ledger.refundClearing(book, change)
      else if (Ledger.earnReward(book, change.reward)) yield* Ledger.fundWaiting(book, change.reward.asset)
    }
  }
  return [...books.values()]
})
