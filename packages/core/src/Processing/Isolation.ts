import { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import * as Database from "../Database.ts"
import type { LaneKey } from "../LaneKey.ts"
import { type BatchLimit, jointMillis } from "./BatchLimit.ts"
import * as Quarantine from "./Quarantine.ts"
import { findLanes } from "./Queue.ts"
import type { WhenLocked } from "./Take.ts"
import { type BatchResult, type DeadlineExceeded, processBatch, type Shared } from "./Transaction.ts"

/** State that the joint batches of one process share. */
export interface Joint extends Shared {
  readonly limit: BatchLimit
  /** Called after an integrator went into quarantine. */
  readonly onQuarantined: () => void
}

/**
 * Processes the next lanes as one batch: a step of the worker. An integrator whose part fails goes into quarantine, and
 * the same call processes the events of the others. Returns the units of work done, plus one for each integrator that
 * went into quarantine.
 *
 * The deadline limits each transaction, not the whole step: none begins after it has passed, but the last one may begin
 * just before and take as long again. So a step with a failing integrator may last twice the deadline, and longer where
 * program versions are loaded in between, which has the deadline of a background step each time.
 */
export const processNext = Effect.fnUntraced(function*(joint: Joint) {
  const suspects = joint.limit.nextSuspects()
  if (suspects !== undefined) return yield* processLanes(joint, suspects)
  const isOld = joint.scan.isBatchFull || joint.scan.left.length > 0
  const found = yield* Database.backgroundStep(findLanes(joint.scan, joint.limit.lanes))
  const lanes = joint.limit.withoutSuspects(found)
  // lanes of suspects only: there is work, and the next step does it
  if (lanes.length === 0) return found.length === 0 ? 0 : 1
  return yield* Effect.acquireUseRelease(
    Effect.sync(() => joint.scan.take(lanes, joint.limit.lanes)),
    Effect.fnUntraced(function*(taken) {
      if (taken.length === 0) return 0
      const done = yield* processLanes(joint, taken)
      if (done > 0 || !isOld) return done
      // these had no work left, others may have: the next step scans the queue
      joint.scan.forget()
      return 1
    }),
    (taken) => Effect.sync(() => joint.scan.shares.release(taken))
  )
})

const processLanes = Effect.fnUntraced(function*(joint: Joint, lanes: ReadonlyArray<LaneKey>) {
  const stepMillis = yield* Database.StepMillis
  const isAlone = integratorsOf(lanes).length === 1
  const deadlineMillis = isAlone ? stepMillis : Math.min(stepMillis, jointMillis)
  const startedNanos = yield* Clock.monotonicTimeNanos
  const tookMillis = Effect.map(Clock.monotonicTimeNanos, (now) => Number(now - startedNanos) / 1e6)
  const isOver = Effect.map(tookMillis, (millis) => millis >= deadlineMillis)
  const lockedVaults = joint.limit.hasLockedVault(lanes) ? "skip" : "wait"
  return yield* processOrSplit({ ...joint, deadlineMillis, isOver }, lanes, lockedVaults).pipe(
    Effect.tap(() => Effect.map(tookMillis, (millis) => joint.limit.recordDuration(millis))),
    Effect.catchTag("DeadlineExceeded", Effect.fnUntraced(function*() {
      const integratorIds = integratorsOf(lanes)
      const error = `The batch was not done within ${deadlineMillis} ms`
      if (isAlone && integratorIds.some((integratorId) => joint.limit.recordSlow(integratorId))) {
        return yield* quarantine(joint, integratorIds, { reason: "failing", error })
      }
      joint.limit.recordExceeded(lanes)
      const message = `${error} (integrators: ${integratorIds.length}); the next one is smaller`
      return yield* new Unavailable({ message })
    }))
  )
})

interface Splitting extends Joint {
  readonly deadlineMillis: number
  /** Whether the deadline has passed since the step began; the next step processes the remaining lanes. */
  readonly isOver: Effect.Effect<boolean>
}

/**
 * Processes lanes as one batch. Where it fails because of some integrators, processes the others again without them.
 * Where the failure names no integrator, bisects the lanes to find it.
 */
const processOrSplit = (
  splitting: Splitting,
  lanes: ReadonlyArray<LaneKey>,
  lockedVaults: WhenLocked
): Effect.Effect<number, Unavailable | DeadlineExceeded, SqlClient.SqlClient> =>
  processBatch(splitting, { lanes, lockedLanes: "skip", lockedVaults, deadlineMillis: splitting.deadlineMillis }).pipe(
    Effect.flatMap((result) => recordResult(splitting, lanes, result)),
    Effect.catchTags({
      Behind: Effect.fnUntraced(function*({ touched }) {
        const behind = new Set<string>(touched.map(({ integratorId }) => integratorId))
        const others = lanes.filter((lane) => !behind.has(lane.integratorId))
        const error = "More rewards are due than one transaction applies"
        const count = yield* quarantine(splitting, behind, { reason: "behind", error })
        return count + (yield* processRest(splitting, others, lockedVaults))
      }),
      LockTimeout: () =>
        lockedVaults === "wait"
          ? processRest(splitting, lanes, "skip")
          : processHalves(splitting, lanes, { reason: "locked", error: "Another session holds its rows" }, "skip"),
      Defect: ({ error }) => processHalves(splitting, lanes, { reason: "failing", error }, lockedVaults)
    })
  )

const processRest = (
  splitting: Splitting,
  lanes: ReadonlyArray<LaneKey>,
  lockedVaults: WhenLocked
): Effect.Effect<number, Unavailable | DeadlineExceeded, SqlClient.SqlClient> =>
  Effect.flatMap(splitting.isOver, (isOver) =>
    lanes.length === 0 || isOver ? Effect.succeed(0) : processOrSplit(splitting, lanes, lockedVaults))

/** Processes each half of the integrators as a batch. A single integrator goes into quarantine instead. */
const processHalves = Effect.fnUntraced(function*(
  splitting: Splitting,
  lanes: ReadonlyArray<LaneKey>,
  failure: Quarantine.Failure,
  lockedVaults: WhenLocked
) {
  const integratorIds = integratorsOf(lanes)
  if (integratorIds.length === 1) return yield* quarantine(splitting, integratorIds, failure)
  const first = new Set(integratorIds.slice(0, Math.ceil(integratorIds.length / 2)))
  const isFirst = (lane: LaneKey) => first.has(lane.integratorId)
  const count = yield* processRest(splitting, lanes.filter(isFirst), lockedVaults)
  return count + (yield* processRest(splitting, lanes.filter((lane) => !isFirst(lane)), lockedVaults))
})

const integratorsOf = (lanes: ReadonlyArray<LaneKey>): ReadonlyArray<string> =>
  [...new Set(lanes.map((lane) => lane.integratorId))]

/**
 * Records the result of a batch after its commit: where the next scan continues, and which vaults are locked. Puts into
 * quarantine the integrators whose decision threw, and those whose vault has stayed locked by another session.
 */
const recordResult = Effect.fnUntraced(function*(
  joint: Joint,
  lanes: ReadonlyArray<LaneKey>,
  result: BatchResult
) {
  joint.scan.isBatchFull = result.isBatchFull
  moveCursor(joint, lanes, result)
  const now = yield* Clock.monotonicTimeNanos
  const locked = [...result.locked].flatMap(([integratorId, holder]) =>
    joint.limit.recordLocked(integratorId, holder, now) ? [integratorId] : [])
  joint.limit.recordServed(result.served)
  joint.limit.forgetLocked(locked)
  let count = yield* quarantine(joint, locked, { reason: "locked", error: "The vault is locked by another session" })
  for (const [integratorId, error] of result.failed) {
    count += yield* quarantine(joint, [integratorId], { reason: "failing", error })
  }
  return result.units + count
})

/** Where the budget was used up before all integrators were served, lets the next batch begin with the others. */
const moveCursor = ({ scan }: Joint, lanes: ReadonlyArray<LaneKey>, { areAllServed, failed, served }: BatchResult) => {
  if (areAllServed) return
  const done = new Set<string>([...served, ...failed.keys()])
  // where none was served, the next batch begins where the scan ended
  scan.continueAfter(lanes.findLast((lane) => done.has(lane.integratorId)) ?? scan.cursor)
}

const quarantine = Effect.fnUntraced(function*(
  joint: Joint,
  integratorIds: Iterable<string>,
  failure: Quarantine.Failure
) {
  let count = 0
  for (const integratorId of integratorIds) {
    yield* Quarantine.add(integratorId, failure)
    joint.limit.removeSuspect(integratorId)
    joint.scan.forget()
    count += 1
  }
  if (count > 0) joint.onQuarantined()
  return count
})
