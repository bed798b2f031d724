import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Data, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "../Database.ts"
import * as Ledger from "../Ledger.ts"
import * as Metrics from "../Metrics.ts"
import type { Programs } from "../Programs.ts"
import * as Tracing from "../Tracing.ts"
import { type DecidablePart, decideParts, maxDependents, type Outcome } from "./Batch.ts"
import { type EventWeights, fairShare } from "./Budget.ts"
import type { LaneKey } from "./LaneWatermarks.ts"
import * as Load from "./Load.ts"
import type { ScanState } from "./Queue.ts"
import * as Save from "./Save.ts"
import type { StoredEvent } from "./State.ts"
import { lockFreeVaults, lockLanes, type Part, takeEvents, type WhenLocked } from "./Take.ts"

/** State that the attempts of one process share. */
export interface Shared {
  readonly programs: Programs["Service"]
  readonly scan: ScanState
  readonly weights: EventWeights
}

/** Which lanes one transaction processes, and its limits. */
export interface AttemptOptions {
  /** Lanes with work, in the order in which their integrators are served. */
  readonly lanes: ReadonlyArray<LaneKey>
  /** Whether to skip lanes and vaults that another transaction has locked, or to wait {@link lockMillis} for them. */
  readonly lockedLanes: WhenLocked
  readonly lockedVaults: WhenLocked
  /** Milliseconds after which the attempt is interrupted and rolled back. */
  readonly deadlineMillis: number
  /** Units of work; {@link maxUnits} when absent. With 1 a transaction applies one event. */
  readonly maxUnits?: number
}

/** What an attempt committed, and what it left. */
export interface Attempted {
  /** Units of work done; see Budget.ts. */
  readonly units: number
  /** The integrators whose events were applied, in order. */
  readonly reached: ReadonlyArray<IntegratorId>
  /** Whether all integrators with events were reached before the budget was used up. */
  readonly isComplete: boolean
  /** Whether the queue held as much work as one batch may do. */
  readonly hasMore: boolean
  /** The errors of integrators whose decision threw. All of their events are still queued. */
  readonly failed: ReadonlyMap<IntegratorId, unknown>
  /** Integrators that were skipped because another transaction had locked their vault, with that transaction's id. */
  readonly locked: ReadonlyMap<string, string>
}

/** Another session had locked a lane or a vault for longer than {@link lockMillis}. */
export class LockTimeout extends Data.TaggedError("LockTimeout") {}

/** The attempt exceeded its deadline and was rolled back. */
export class DeadlineExceeded extends Data.TaggedError("DeadlineExceeded") {}

/** A bug, a broken row, or an SQL error that a retry cannot help. It does not name the integrator that caused it. */
export class Defect extends Data.TaggedError("Defect")<{ readonly error: unknown }> {}

/** Milliseconds for which a transaction waits for a lock. Most locks are held for less than a tenth of it. */
const lockMillis = 500

/** Limits each lock wait in the rest of the transaction to {@link lockMillis}. */
export const limitLockWaits = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`SELECT set_config('lock_timeout', ${`${lockMillis}ms`}, true)`)

/**
 * Processes stored events of some lanes in one transaction, then loads program versions that some of them wait for.
 * Where the transaction could apply nothing without these versions, it runs a second time.
 */
export const attempt = (shared: Shared, options: AttemptOptions) =>
  Effect.flatMap(commitAndLoad(shared, options), (first) =>
    first.loaded > 0 && first.attempted.units === 0 ? commitAndLoad(shared, options) : Effect.succeed(first)).pipe(
      Effect.map(({ attempted, loaded }): Attempted => ({ ...attempted, units: attempted.units + loaded })),
      Effect.catchDefect((error) => Effect.fail(new Defect({ error })))
    )

const commitAndLoad = Effect.fnUntraced(function*(shared: Shared, options: AttemptOptions) {
  const sql = yield* SqlClient.SqlClient
  const transaction = Effect.catchReason(
    sql.withTransaction(processLanes(shared, options)),
    "SqlError",
    "LockTimeoutError",
    () => Effect.fail(new LockTimeout())
  )
  const { deferred, taken, work, ...attempted } = yield* Database.withDeadline(
    options.deadlineMillis,
    transaction,
    () => Effect.fail(new DeadlineExceeded())
  )
  for (const [integratorId, { events, units }] of work) shared.weights.observe(integratorId, units, events)
  return { attempted, loaded: yield* shared.programs.load(taken, deferred) }
})

type Work = ReadonlyMap<IntegratorId, { readonly units: number; readonly events: number }>

interface Committed extends Attempted {
  readonly work: Work
  /** Events that the transaction reached, and those of them that it left in the queue for lack of program versions. */
  readonly taken: ReadonlyArray<StoredEvent>
  readonly deferred: Outcome["deferred"]
}

const nothing: Committed = {
  units: 0,
  reached: [],
  isComplete: true,
  hasMore: false,
  failed: new Map(),
  locked: new Map(),
  work: new Map(),
  taken: [],
  deferred: []
}

const processLanes = Effect.fnUntraced(function*(shared: Shared, options: AttemptOptions) {
  if (options.lanes.length === 0) return nothing
  yield* limitLockWaits
  const ownLanes = yield* lockLanes(options.lanes, options.lockedLanes)
  const locked = options.lockedVaults === "skip"
    ? yield* lockFreeVaults(new Set(ownLanes.map((lane) => lane.integratorId)))
    : nothing.locked
  const lanes = ownLanes.filter((lane) => !locked.has(lane.integratorId))
  if (lanes.length === 0) return { ...nothing, locked }
  const { hasMore, parts } = yield* takeEvents(shared.scan, shared.weights, lanes)
  if (parts.length === 0) return { ...nothing, locked }
  const origins = () => parts.flatMap(({ queued }) => queued.map((event) => event.traceparent))
  return yield* Tracing.startDeferred(origins)(applyParts(shared, options, lanes, parts)).pipe(
    Effect.map((applied) => ({ ...applied, locked, hasMore }))
  )
})

const applied = Metrics.counter("card_rewards.spend_events.applied", "{event}", "Spend events that were applied")

const applyParts = Effect.fnUntraced(function*(
  { programs }: Shared,
  options: AttemptOptions,
  lanes: ReadonlyArray<Save.Lane>,
  parts: ReadonlyArray<Part>
) {
  const catalogs = yield* programs.catalogs(parts.map((part) => part.integratorId))
  const loaded = yield* readDependents(parts)
  const state = yield* Load.state(loaded, catalogs)
  const { failed, outcome, reached, work } = decideParts(state, loaded.parts, options.maxUnits)
  const groups = failed.size === 0
    ? state.groups
    : new Map([...state.groups].filter(([, group]) => !failed.has(group.integratorId)))
  yield* Save.save({ ...state, groups }, outcome, lanes)
  yield* applyOrders(outcome)
  yield* Metrics.afterCommit(() => Metrics.addByKind(applied, outcome.applied))
  const units = [...work.values()].reduce((sum, one) => sum + one.units, 0)
  const isComplete = work.size + failed.size === parts.length
  return { units, work, reached: [...work.keys()], isComplete, failed, taken: reached, deferred: outcome.deferred }
})

interface Loaded {
  readonly parts: ReadonlyArray<DecidablePart>
  readonly queued: ReadonlyArray<StoredEvent>
  readonly waiting: Map<string, Array<StoredEvent>>
}

/**
 * Reads the events that wait for events of all parts. Where these are too many for one batch, reads them part by part,
 * each with an equal share of the remaining limit. Parts for which nothing remains are absent from the result.
 */
const readDependents = Effect.fnUntraced(function*(parts: ReadonlyArray<Part>) {
  const queued = parts.flatMap((part) => part.queued)
  const joint = yield* Load.dependents(queued, maxDependents)
  if (joint.isComplete) {
    const { resumed, waiting } = joint
    return { queued, waiting, parts: parts.map((part) => ({ ...part, resumed, maxDependents })) } satisfies Loaded
  }
  const loaded: Array<DecidablePart> = []
  const waiting = new Map<string, Array<StoredEvent>>()
  let left = maxDependents
  for (const [index, part] of parts.entries()) {
    if (left <= 0) break
    const share = fairShare(left, parts.length - index)
    const own = yield* Load.dependents(part.queued, share)
    for (const [key, dependents] of own.waiting) {
      waiting.set(key, dependents)
      left -= dependents.length
    }
    loaded.push({ integratorId: part.integratorId, queued: own.queued, resumed: own.resumed, maxDependents: share })
  }
  return { queued: loaded.flatMap((part) => part.queued), waiting, parts: loaded } satisfies Loaded
})

/** Applies the orders of a batch to the vaults. */
const applyOrders = Effect.fnUntraced(function*({ orders }: Outcome) {
  if (orders.length === 0) return
  const byIntegrator = Map.groupBy(orders, ({ event }) => event.integratorId)
  const touched = [...byIntegrator].map(([integratorId, own]): Ledger.Touched => ({
    integratorId,
    userIds: new Set(own.map(({ event }) => event.userId)),
    clearings: own.flatMap(({ order }) => order.kind === "refund" ? [order] : [])
  }))
  const books = yield* Ledger.open(touched)
  for (const [integratorId, own] of byIntegrator) {
    const book = books.get(integratorId)
    if (book === undefined) return yield* Effect.die(new Error("an integrator without a vault"))
    for (const [index, { event, order }] of own.entries()) {
      if (book.isBehind && own[index - 1]?.event !== event) {
        const behind = touched.filter((one) => one.integratorId === integratorId)
        return yield* new Ledger.Behind({ touched: behind, became: "within" })
      }
      yield* order.kind === "earn"
        ? Ledger.earnReward(book, order.reward)
        : Ledger.refundClearing(book, order.userId, order.programIds, order.externalTransactionId, order.refundedCents)
    }
  }
  yield* Ledger.write(books.values())
})

