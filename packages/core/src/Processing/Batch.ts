import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Result } from "effect"
import type { VersionMetadata } from "../Programs/Catalog.ts"
import { apply, isReady, type Order } from "./Apply.ts"
import { estimatesMovedBy, fairShare, maxUnits, rewardsChangedBy } from "./Budget.ts"
import { neededVersions } from "./Needs.ts"
import { eventKey, originalKey, type State, type StoredEvent } from "./State.ts"

/** Dependents that one transaction applies at most; the others are applied before any later event of their user. */
export const maxDependents = 1_000

/** The decisions of a batch. */
export interface Outcome {
  /** Events that were applied, in order. */
  readonly applied: Array<StoredEvent>
  /** Events that wait for their original from now on. */
  readonly waiting: Array<StoredEvent>
  /** Events that waited and were applied, including those that this batch itself had set aside. */
  readonly released: Array<StoredEvent>
  /** Events that leave the queue. */
  readonly done: Array<StoredEvent>
  /** Changes of the vaults' rewards, in order. */
  readonly orders: Array<{ readonly event: StoredEvent; readonly order: Order }>
  /** Events that stay queued until these versions are loaded, and later events of the same users, without versions. */
  readonly deferred: Array<StoredEvent & { readonly versions: ReadonlyArray<VersionMetadata> }>
}

const emptyOutcome = (): Outcome =>
  ({ applied: [], waiting: [], released: [], done: [], orders: [], deferred: [] })

/** An integrator's part of a batch, and the dependents that were read for it. */
export interface DecidablePart {
  readonly integratorId: IntegratorId
  /** In order of arrival. */
  readonly queued: ReadonlyArray<StoredEvent>
  /** By user, the keys of applied clearings some of whose dependents an earlier transaction left unapplied. */
  readonly resumed: ReadonlyMap<string, ReadonlyArray<string>>
  /** Dependents that may be applied; more may be waiting than were read. */
  readonly maxDependents: number
}

/** The decisions for several integrators. */
export interface Decision {
  readonly outcome: Outcome
  /** Units of work and queued events of each integrator that was reached. */
  readonly work: ReadonlyMap<IntegratorId, { readonly units: number; readonly events: number }>
  /** The errors of integrators whose decision threw: nothing of theirs may be saved. */
  readonly failed: ReadonlyMap<IntegratorId, unknown>
  /** Queued events that were applied, set aside, deferred or blocked: all events except those beyond the budget. */
  readonly reached: ReadonlyArray<StoredEvent>
}

/**
 * Decides part by part until the budget is used up; each part may use an equal share of the remaining budget. A part
 * whose decision throws fails alone. Parts that were not reached are absent from the result. Changes `state`.
 */
export const decideParts = (state: State, parts: ReadonlyArray<DecidablePart>, budget = maxUnits): Decision => {
  const outcome = emptyOutcome()
  const work = new Map<IntegratorId, { readonly units: number; readonly events: number }>()
  const failed = new Map<IntegratorId, unknown>()
  const reached: Array<StoredEvent> = []
  let left = budget
  for (const [index, part] of parts.entries()) {
    if (left <= 0) break
    const share = fairShare(left, parts.length - index)
    const decided = Result.try({ try: () => decidePart(state, part, share), catch: (error) => error })
    if (Result.isFailure(decided)) {
      failed.set(part.integratorId, decided.failure)
      continue
    }
    const { events, outcome: own, units } = decided.success
    left -= units
    work.set(part.integratorId, { units, events })
    outcome.applied.push(...own.applied)
    outcome.waiting.push(...own.waiting)
    outcome.released.push(...own.released)
    outcome.done.push(...own.done)
    outcome.orders.push(...own.orders)
    outcome.deferred.push(...own.deferred)
    reached.push(...decided.success.reached)
  }
  return { outcome, work, failed, reached }
}

/**
 * Applies queued events one after another, each followed by its dependents, depth first (decisions, section 5.7), until
 * they have made `share` units of work; the last event may exceed it. An event whose dependents do not all fit, or
 * whose versions are not all compiled, stays in the queue together with its user's later events.
 */
export const decidePart = (state: State, part: DecidablePart, share: number) => {
  const outcome = emptyOutcome()
  const blocked = new Set<string>()
  const deferred = new Set<string>()
  const reached: Array<StoredEvent> = []
  let dependentsLeft = part.maxDependents
  let units = 0
  let events = 0

  const applyOne = (event: StoredEvent): boolean => {
    const estimates = estimatesMovedBy(state, event)
    const orders = apply(state, event)
    units += 1 + estimates + rewardsChangedBy(orders)
    outcome.applied.push(event)
    for (const order of orders) outcome.orders.push({ event, order })
    return applyDependents(eventKey(event))
  }
  /** Returns whether all dependents were applied. */
  const applyDependents = (key: string): boolean => {
    const dependents = state.waiting.get(key) ?? []
    while (dependents.length > 0) {
      if (dependentsLeft === 0 || units >= share) return false
      const next = dependents.shift()
      if (next === undefined) break
      dependentsLeft -= 1
      outcome.released.push(next)
      if (!applyOne(next)) return false
    }
    return true
  }

  for (const event of part.queued) {
    if (units >= share) break
    const user = userOf(event)
    reached.push(event)
    if (deferred.has(user)) outcome.deferred.push({ ...event, versions: [] })
    if (deferred.has(user) || blocked.has(user)) continue
    events += 1
    if (event.position === null && !isReady(state, event)) {
      setAside(state, event)
      units += 1
      outcome.waiting.push(event)
      outcome.done.push(event)
      continue
    }
    const missing = missingVersions(state, event, part.resumed.get(user))
    if (missing !== undefined) {
      outcome.deferred.push({ ...event, versions: missing })
      deferred.add(user)
      continue
    }
    const finished = event.position === null
      ? applyOne(event)
      : (part.resumed.get(user) ?? []).every(applyDependents) && applyDependents(eventKey(event))
    if (finished) outcome.done.push(event)
    else blocked.add(user)
  }
  return { outcome, units, events, reached }
}

/** All versions that an event needs where one of them is not compiled; empty where the catalog is not read yet. */
const missingVersions = (
  state: State,
  event: StoredEvent,
  resumed: ReadonlyArray<string> | undefined
): ReadonlyArray<VersionMetadata> | undefined => {
  const catalog = state.programs.get(event.integratorId)
  if (catalog === undefined) return []
  const needed = [...neededVersions(state, event, catalog, event.position === null ? [] : resumed)]
  // `filter`, not `some`: `has` keeps each compiled version for the rest of the batch
  return needed.filter((version) => !catalog.has(version)).length === 0 ? undefined : needed
}

/** Inserts an event, in order, among those that wait for its original, which may come later in this batch. */
const setAside = (state: State, event: StoredEvent): void => {
  const key = originalKey(event)
  const others = state.waiting.get(key) ?? []
  const after = others.findIndex((other) =>
    other.occurredAt > event.occurredAt || (other.occurredAt === event.occurredAt && other.arrival > event.arrival)
  )
  state.waiting.set(key, others.toSpliced(after === -1 ? others.length : after, 0, event))
}

/** Map key of an event's user. */
export const userOf = (event: Pick<StoredEvent, "integratorId" | "userId">): string =>
  `${event.integratorId}\0${event.userId}`
