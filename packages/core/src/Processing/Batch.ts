import type { VersionMetadata } from "../Programs/Catalog.ts"
import { apply, isReady, type Order } from "./Apply.ts"
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

/**
 * Applies queued events one after another, each with what waited for it, depth first (decisions, section 5.7). An
 * event whose dependents do not all fit, or whose versions are not all compiled, stays in the queue, and its user's
 * later events with it. `resumed` holds, by user, the keys of applied clearings that an earlier transaction left with
 * dependents.
 */
export const runBatch = (
  state: State,
  queued: ReadonlyArray<StoredEvent>,
  resumed: ReadonlyMap<string, ReadonlyArray<string>>
): Outcome => {
  const outcome: Outcome = { applied: [], waiting: [], released: [], done: [], orders: [], deferred: [] }
  const blocked = new Set<string>()
  const deferred = new Set<string>()
  let left = maxDependents

  const applyOne = (event: StoredEvent): boolean => {
    outcome.applied.push(event)
    for (const order of apply(state, event)) outcome.orders.push({ event, order })
    return applyDependents(eventKey(event))
  }
  /** Answers whether all of them were applied. */
  const applyDependents = (key: string): boolean => {
    const dependents = state.waiting.get(key) ?? []
    while (dependents.length > 0) {
      if (left === 0) return false
      const next = dependents.shift()
      if (next === undefined) break
      left -= 1
      outcome.released.push(next)
      if (!applyOne(next)) return false
    }
    return true
  }

  for (const event of queued) {
    const user = userOf(event)
    if (deferred.has(user)) outcome.deferred.push({ ...event, versions: [] })
    if (deferred.has(user) || blocked.has(user)) continue
    if (event.position === null && !isReady(state, event)) {
      setAside(state, event)
      outcome.waiting.push(event)
      outcome.done.push(event)
      continue
    }
    const missing = missingVersions(state, event, resumed.get(user))
    if (missing !== undefined) {
      outcome.deferred.push({ ...event, versions: missing })
      deferred.add(user)
      continue
    }
    const finished = event.position === null
      ? applyOne(event)
      : (resumed.get(user) ?? []).every(applyDependents) && applyDependents(eventKey(event))
    if (finished) outcome.done.push(event)
    else blocked.add(user)
  }
  return outcome
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

/** Its original may come later in this very batch: the event then takes its place among what waits for it. */
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
