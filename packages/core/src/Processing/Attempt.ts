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
import { lockFreeVaults, lockLanes, type Part, takeEvents } from "./Take.ts"

/** What attempts of one process share. */
export interface Shared {
  readonly programs: Programs["Service"]
  readonly scan: ScanState
  readonly weights: EventWeights
}

/** One transaction over some lanes. */
export interface AttemptOptions {
  /** Lanes with work, in the order in which their integrators are served. */
  readonly lanes: ReadonlyArray<LaneKey>
  /**
   * What is done about a lane, or a vault, that another transaction holds: it is waited for, {@link lockMillis} at
   * most.
   */
  readonly heldLanes: "passOver" | "waitFor"
  readonly heldVaults: "passOver" | "waitFor"
  /** When the attempt is given up. */
  readonly deadlineMillis: number
  /** Units of work; {@link maxUnits} where absent. With 1 a transaction applies one event. */
  readonly maxUnits?: number
}

/** What an attempt committed. */
export interface Attempted {
  /** Units of work done; see Budget.ts. */
  readonly units: number
  /** The integrators that were reached, in turn. */
  readonly reached: ReadonlyArray<IntegratorId>
  /** Whether all integrators with events were reached: for the others the budget was used up. */
  readonly isComplete: boolean
  /** Whether as much was read as a batch may do. */
  readonly hasMore: boolean
  /** Why a decision threw: these integrators' events are all still stored. */
  readonly failed: ReadonlyMap<IntegratorId, unknown>
  /**
   * Integrators that were passed over because another transaction holds their vault, each with that transaction's id.
   */
  readonly held: ReadonlyMap<string, string>
}

/** A lane or a vault was held by another session for longer than {@link lockMillis}. */
export class LockTimeout extends Data.TaggedError("LockTimeout") {}

/** The attempt was not done in time; it was rolled back. */
export class DeadlineExceeded extends Data.TaggedError("DeadlineExceeded") {}

/** A bug, a broken row, or an SQL error that no repetition helps: it does not say which integrator it belongs to. */
export class Defect extends Data.TaggedError("Defect")<{ readonly error: unknown }> {}

/** How long a transaction waits for a lock: commonly they are held for less than a tenth of it. */
const lockMillis = 500

/** Limits how long the rest of a transaction waits for each lock, to {@link lockMillis}. */
export const limitLockWaits = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`SELECT set_config('lock_timeout', ${`${lockMillis}ms`}, true)`)

/**
 * Processes stored events of some lanes in one transaction, and then loads program versions that some of them wait for.
 * Where nothing else could be done, it is done once more, with what was loaded.
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
  /** Events that the transaction came to, and those of them that it left in the queue for lack of program versions. */
  readonly taken: ReadonlyArray<StoredEvent>
  readonly deferred: Outcome["deferred"]
}

const nothing: Committed = {
  units: 0,
  reached: [],
  isComplete: true,
  hasMore: false,
  failed: new Map(),
  held: new Map(),
  work: new Map(),
  taken: [],
  deferred: []
}

const processLanes = Effect.fnUntraced(function*(shared: Shared, options: AttemptOptions) {
  if (options.lanes.length === 0) return nothing
  yield* limitLockWaits
  const locked = yield* lockLanes(options.lanes, options.heldLanes)
  const held = options.heldVaults === "passOver"
    ? yield* lockFreeVaults(new Set(locked.map((lane) => lane.integratorId)))
    : nothing.held
  const lanes = locked.filter((lane) => !held.has(lane.integratorId))
  if (lanes.length === 0) return { ...nothing, held }
  const { hasMore, parts } = yield* takeEvents(shared.scan, shared.weights, lanes)
  if (parts.length === 0) return { ...nothing, held }
  const origins = () => parts.flatMap(({ queued }) => queued.map((event) => event.traceparent))
  return yield* Tracing.found(origins)(applyParts(shared, options, lanes, parts)).pipe(
    Effect.map((applied) => ({ ...applied, held, hasMore }))
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
  yield* settle(outcome)
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
 * Reads what waits for the events of all parts, or where that is too much, part by part: each may have an equal share
 * of what is left. Parts for which nothing is left are absent from the answer.
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

/** Carries the orders of a batch out on the vaults. */
const settle = Effect.fnUntraced(function*({ orders }: Outcome) {
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

