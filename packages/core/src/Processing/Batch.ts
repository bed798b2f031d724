import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Result } from "effect"
import type { VersionMetadata } from "../Programs/Catalog.ts"
import { apply, isReady, type Order } from "./Apply.ts"
import { estimatesMovedBy, fairShare, maxUnits, rewardsChangedBy } from "./Budget.ts"
import { neededVersions } from "./Needs.ts"
import { eventKey, originalKey, type State, type StoredEvent } from "./State.ts"

/** Dependents that one transaction applies at most; the rest come before any later event of their user. */
export const maxDependents = 1_000

/** What a batch decided. */
export interface Outcome {
  /** Events that were applied, in order. */
  readonly applied: Array<StoredEvent>
  /** Events that wait for their original from now on. */
  readonly waiting: Array<StoredEvent>
  /** Events that waited and were applied, also those that waited for a moment only. */
  readonly released: Array<StoredEvent>
  /** Events that leave the queue. */
  readonly done: Array<StoredEvent>
  /** What the vaults are asked for, in order. */
  readonly orders: Array<{ readonly event: StoredEvent; readonly order: Order }>
  /** Events that stay in the queue until versions are loaded, and the later events of their users, which need none. */
  readonly deferred: Array<StoredEvent & { readonly versions: ReadonlyArray<VersionMetadata> }>
}

const emptyOutcome = (): Outcome =>
  ({ applied: [], waiting: [], released: [], done: [], orders: [], deferred: [] })

/** An integrator's part of a batch, with what was read of its dependents. */
export interface DecidablePart {
  readonly integratorId: IntegratorId
  /** In order of arrival. */
  readonly queued: ReadonlyArray<StoredEvent>
  /** By user, the keys of applied clearings that an earlier transaction left with dependents. */
  readonly resumed: ReadonlyMap<string, ReadonlyArray<string>>
  /** Dependents that may be applied: more may wait than were read. */
  readonly maxDependents: number
}

/** What was decided for several integrators. */
export interface Decision {
  readonly outcome: Outcome
  /** The work of each integrator that was reached, and how many events of its queue that took. */
  readonly work: ReadonlyMap<IntegratorId, { readonly units: number; readonly events: number }>
  /** Why a decision threw: nothing of these integrators may be saved. */
  readonly failed: ReadonlyMap<IntegratorId, unknown>
  /** Queued events that were applied, set aside or left in the queue for a reason: all but those beyond the budget. */
  readonly reached: ReadonlyArray<StoredEvent>
}

/**
 * Decides part by part until the budget is used up; each part may use an equal share of what is left. A part whose
 * decision throws fails alone. Parts that were not reached are absent from the answer. Changes `state`.
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
 * Applies queued events one after another, each with what waited for it, depth first (decisions, section 5.7), until
 * they have made `share` units of work; the last one may exceed it. An event whose dependents do not all fit, or whose
 * versions are not all compiled, stays in the queue, and its user's later events with it.
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
  /** Answers whether all of them were applied. */
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

/** All versions that an event needs, if one of them is not compiled; none where its integrator's are not known yet. */
const missingVersions = (
  state: State,
  event: StoredEvent,
  resumed: ReadonlyArray<string> | undefined
): ReadonlyArray<VersionMetadata> | undefined => {
  const catalog = state.programs.get(event.integratorId)
  if (catalog === undefined) return []
  const needed = [...neededVersions(state, event, catalog, event.position === null ? [] : resumed)]
  // no short cut: whatever is compiled is kept for the batch
  return needed.filter((version) => !catalog.has(version)).length === 0 ? undefined : needed
}

/** Its original may come later in this very batch: the event is then ordered among those that wait for it. */
const setAside = (state: State, event: StoredEvent): void => {
  const key = originalKey(event)
  const others = state.waiting.get(key) ?? []
  const after = others.findIndex((other) =>
    other.occurredAt > event.occurredAt || (other.occurredAt === event.occurredAt && other.arrival > event.arrival)
  )
  state.waiting.set(key, others.toSpliced(after === -1 ? others.length : after, 0, event))
}

/** Key of an event's user. */
export const userOf = (event: Pick<StoredEvent, "integratorId" | "userId">): string =>
  `${event.integratorId}\0${event.userId}`
