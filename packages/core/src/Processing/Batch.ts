import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Result } from "effect"
import type { VersionMetadata } from "../Programs/Catalog.ts"
import { apply, isReady, type VaultChange } from "./Apply.ts"
import { decidingUnits, estimatesMovedBy, fairShare, maxUnits, rewardUnits } from "./Budget.ts"
import { neededVersions } from "./Needs.ts"
import {
  authorizationOf,
  dependentsOf,
  isPartlyApplied,
  originalKey,
  partlyAppliedClearing,
  type State,
  type StoredEvent,
  transactionKey
} from "./State.ts"

// The states of a stored event. Its *original* is the event that it refers to, its *dependents* are the waiting events
// whose original it is.
//
// | state          | meaning                                  | queue | waits | position | what comes next            |
// | -------------- | ---------------------------------------- | ----- | ----- | -------- | -------------------------- |
// | queued         | stored; neither applied nor set aside    | yes   | no    | null     | a batch decides it         |
// | waiting        | its original is not applied              | no    | yes   | null     | applied after its original |
// | partly applied | applied, but not all of its dependents   | yes*  | no    | set      | a batch applies the others |
// | applied        | it and all of its dependents are applied | no    | no    | set      | nothing                    |
//
// "queue" is a key in `spend_event_queue`, "waits" a row of `spend_event_waits`, "position" the column of
// `spend_events`. * A partly applied event that had waited itself has no key there: that of its original stays. Of an
// applied clearing, `refunded_cents` changes with each refund. The contract calls queued events `stored`, and
// partly applied ones `applied`.
//
// A batch *decides* queued events, in order of arrival, until its budget is used up; the others keep their state. A
// decided event is applied, set aside (it waits from now on), or stays queued for one of two reasons:
//
// - *deferred*: it needs program versions that are not compiled. They are loaded after the transaction.
// - *blocked*: an earlier event of its user is deferred or partly applied.

/** The maximum number of dependents that one transaction applies; the others are applied before later events. */
export const maxDependents = 1_000

/** The decisions of a batch. */
export interface BatchOutcome {
  /** Events that were applied, in order. */
  readonly applied: Array<StoredEvent>
  /** Queued events that were set aside. */
  readonly setAside: Array<StoredEvent>
  /** Applied events that had waited, including those that this batch itself had set aside. */
  readonly noLongerWaiting: Array<StoredEvent>
  /** Events that leave the queue. */
  readonly done: Array<StoredEvent>
  /** Changes of the vaults' rewards, in order. */
  readonly vaultChanges: Array<{ readonly event: StoredEvent; readonly change: VaultChange }>
  /** Deferred events with the versions that they need, and blocked events behind them, without versions. */
  readonly deferred: Array<StoredEvent & { readonly versions: ReadonlyArray<VersionMetadata> }>
}

const emptyOutcome = (): BatchOutcome =>
  ({ applied: [], setAside: [], noLongerWaiting: [], done: [], vaultChanges: [], deferred: [] })

/** An integrator's part of a batch, and the dependents that were read for it. */
export interface DecidablePart {
  readonly integratorId: IntegratorId
  /** In order of arrival. */
  readonly queued: ReadonlyArray<StoredEvent>
  /** The maximum number of dependents to apply; more may be waiting than were read. */
  readonly maxDependents: number
}

/** The decisions for several integrators. */
export interface Decision {
  readonly outcome: BatchOutcome
  /** Units of work and queued events of each integrator of which events were decided. */
  readonly work: ReadonlyMap<IntegratorId, { readonly units: number; readonly events: number }>
  /** The errors of integrators whose decision threw: nothing of theirs may be saved. */
  readonly failed: ReadonlyMap<IntegratorId, unknown>
  /** The decided events: all queued events except those beyond the budget. */
  readonly decided: ReadonlyArray<StoredEvent>
}

/**
 * Decides part by part until the budget is used up; each part may use an equal share of the remaining budget. A part
 * whose decision throws fails alone. Parts beyond the budget are absent from the result. Changes `state`.
 */
export const decideParts = (state: State, parts: ReadonlyArray<DecidablePart>, budget = maxUnits): Decision => {
  const outcome = emptyOutcome()
  const work = new Map<IntegratorId, { readonly units: number; readonly events: number }>()
  const failed = new Map<IntegratorId, unknown>()
  const decided: Array<StoredEvent> = []
  let left = budget
  for (const [index, part] of parts.entries()) {
    if (left <= 0) break
    const share = fairShare(left, parts.length - index)
    const result = Result.try({ try: () => decidePart(state, part, share), catch: (error) => error })
    if (Result.isFailure(result)) {
      failed.set(part.integratorId, result.failure)
      continue
    }
    const { decided: ownDecided, events, outcome: own, units } = result.success
    left -= units
    work.set(part.integratorId, { units, events })
    outcome.applied.push(...own.applied)
    outcome.setAside.push(...own.setAside)
    outcome.noLongerWaiting.push(...own.noLongerWaiting)
    outcome.done.push(...own.done)
    outcome.vaultChanges.push(...own.vaultChanges)
    outcome.deferred.push(...own.deferred)
    decided.push(...ownDecided)
  }
  return { outcome, work, failed, decided }
}

/**
 * Decides queued events one after another until they have made `share` units of work; the last one may exceed it. An
 * applied event is followed by its dependents, depth first (decisions, section 5.7). Where these do not all fit, it is
 * partly applied.
 */
const decidePart = (state: State, part: DecidablePart, share: number) => {
  const outcome = emptyOutcome()
  const usersWithPartlyApplied = new Set<string>()
  const usersWithDeferred = new Set<string>()
  const decided: Array<StoredEvent> = []
  let dependentsLeft = part.maxDependents
  let units = 0
  let events = 0

  /** Applies an event and its dependents. Returns whether all of these were applied. */
  const applyOne = (event: StoredEvent): boolean => {
    const estimates = estimatesMovedBy(state, event)
    const before = decidingUnits(state)
    const changes = apply(state, event)
    units += 1 + estimates + rewardUnits(event, changes) + decidingUnits(state) - before
    outcome.applied.push(event)
    for (const change of changes) outcome.vaultChanges.push({ event, change })
    return applyAll(dependentsOf(state, event))
  }
  /** Applies the dependents of an event, and removes them from the list. Returns whether all of them were applied. */
  const applyAll = (dependents: Array<StoredEvent>): boolean => {
    while (dependents.length > 0) {
      if (dependentsLeft === 0 || units >= share) return false
      const next = dependents.shift()
      if (next === undefined) break
      dependentsLeft -= 1
      outcome.noLongerWaiting.push(next)
      if (!applyOne(next)) {
        notePartlyApplied(state, next)
        return false
      }
    }
    return true
  }

  for (const event of part.queued) {
    if (units >= share) break
    const { userId } = event
    decided.push(event)
    if (usersWithDeferred.has(userId)) outcome.deferred.push({ ...event, versions: [] })
    if (usersWithDeferred.has(userId) || usersWithPartlyApplied.has(userId)) continue
    events += 1
    if (!isPartlyApplied(event) && !isReady(state, event)) {
      addWaiting(state, event)
      units += 1
      outcome.setAside.push(event)
      outcome.done.push(event)
      continue
    }
    const missing = missingVersions(state, event)
    if (missing !== undefined) {
      outcome.deferred.push({ ...event, versions: missing })
      usersWithDeferred.add(userId)
      continue
    }
    const clearing = partlyAppliedClearing(state, event)
    const isDone = isPartlyApplied(event)
      ? (clearing === undefined || applyAll(dependentsOf(state, clearing))) && applyAll(dependentsOf(state, event))
      : applyOne(event)
    if (isDone) outcome.done.push(event)
    else usersWithPartlyApplied.add(userId)
  }
  return { outcome, units, events, decided }
}

/** Notes with its authorization a clearing that had waited for it: it is not in the queue. */
const notePartlyApplied = (state: State, clearing: StoredEvent): void => {
  const authorization = authorizationOf(state, clearing)
  if (authorization === undefined) return
  const partlyApplied = clearing.externalTransactionId
  state.authorizations.set(transactionKey(authorization), { ...authorization, partlyApplied })
}

/** All versions that an event needs where one of them is not compiled; empty where the catalog is not read yet. */
const missingVersions = (state: State, event: StoredEvent): ReadonlyArray<VersionMetadata> | undefined => {
  const catalog = state.programs.get(event.integratorId)
  if (catalog === undefined) return []
  const needed = neededVersions(state, event, catalog)
  return catalog.hasAll(needed) ? undefined : [...needed]
}

/** Adds an event, in order, to those that wait for its original, which may come later in this batch. */
const addWaiting = (state: State, event: StoredEvent): void => {
  const key = originalKey(event)
  const others = state.waiting.get(key) ?? []
  const after = others.findIndex((other) =>
    other.occurredAt > event.occurredAt || (other.occurredAt === event.occurredAt && other.arrival > event.arrival)
  )
  state.waiting.set(key, others.toSpliced(after === -1 ? others.length : after, 0, event))
}
