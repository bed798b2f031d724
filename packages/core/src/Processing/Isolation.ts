import { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import * as Database from "../Database.ts"
import { attempt, type Attempted, type DeadlineExceeded, type Shared } from "./Attempt.ts"
import { type BatchLimit, jointMillis } from "./BatchLimit.ts"
import type { LaneKey } from "./LaneWatermarks.ts"
import * as Quarantine from "./Quarantine.ts"
import { findLanes } from "./Queue.ts"
import type { WhenLocked } from "./Take.ts"

/** State that the joint batches of one process share. */
export interface Joint extends Shared {
  readonly limit: BatchLimit
  /** Called after an integrator went into quarantine. */
  readonly onQuarantined: () => void
}

/**
 * Processes the next lanes in one transaction. An integrator whose part fails goes into quarantine, and the same call
 * processes the events of the others. Returns the units of work done, plus one for each integrator that went into
 * quarantine.
 */
export const processNext = Effect.fnUntraced(function*(joint: Joint) {
  const suspects = joint.limit.nextSuspects()
  const found = suspects ?? (yield* Database.backgroundStep(findLanes(joint.scan, joint.limit.lanes)))
  const lanes = suspects ?? joint.limit.withoutSuspects(found)
  // where all of them are suspects, the next step processes these: there is work
  if (lanes.length === 0) return found.length === 0 ? 0 : 1
  const stepMillis = yield* Database.StepMillis
  const isAlone = integratorsOf(lanes).length === 1
  const deadlineMillis = isAlone ? stepMillis : Math.min(stepMillis, jointMillis)
  const begun = yield* Clock.monotonicTimeNanos
  const tookMillis = Effect.map(Clock.monotonicTimeNanos, (now) => Number(now - begun) / 1e6)
  const isOver = Effect.map(tookMillis, (millis) => millis >= deadlineMillis)
  const lockedVaults = joint.limit.hasLockedVault(lanes) ? "skip" : "wait"
  return yield* processLanes({ ...joint, deadlineMillis, isOver }, lanes, lockedVaults).pipe(
    Effect.tap(() => Effect.map(tookMillis, (millis) => joint.limit.succeeded(lanes, millis))),
    Effect.catchTag("DeadlineExceeded", Effect.fnUntraced(function*() {
      const integratorIds = integratorsOf(lanes)
      const error = `The batch was not done within ${deadlineMillis} ms`
      if (isAlone && integratorIds.some((integratorId) => joint.limit.recordSlow(integratorId))) {
        return yield* quarantine(joint, integratorIds, { reason: "failing", error })
      }
      joint.limit.exceeded(lanes)
      const message = `${error} (integrators: ${integratorIds.length}); the next one is smaller`
      return yield* new Unavailable({ message })
    }))
  )
})

interface Splitting extends Joint {
  readonly deadlineMillis: number
  /** Whether the step's deadline has passed; the next step processes the remaining lanes. */
  readonly isOver: Effect.Effect<boolean>
}

/**
 * Processes lanes in one transaction. Where it fails because of some integrators, processes the others again without
 * them. Where the failure names no integrator, bisects the lanes to find it.
 */
const processLanes = (
  splitting: Splitting,
  lanes: ReadonlyArray<LaneKey>,
  lockedVaults: WhenLocked
): Effect.Effect<number, Unavailable | DeadlineExceeded, SqlClient.SqlClient> =>
  attempt(splitting, { lanes, lockedLanes: "skip", lockedVaults, deadlineMillis: splitting.deadlineMillis }).pipe(
    Effect.flatMap((attempted) => quarantineFailed(splitting, lanes, attempted)),
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
    lanes.length === 0 || isOver ? Effect.succeed(0) : processLanes(splitting, lanes, lockedVaults))

/** Processes each half of the lanes by itself. A single integrator goes into quarantine instead. */
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

/** After a commit: quarantines integrators whose decision threw, or whose vault stays locked by another session. */
const quarantineFailed = Effect.fnUntraced(function*(
  joint: Joint,
  lanes: ReadonlyArray<LaneKey>,
  attempted: Attempted
) {
  joint.scan.hasMore = attempted.hasMore
  moveCursor(joint, lanes, attempted)
  const now = yield* Clock.monotonicTimeNanos
  const locked = [...attempted.locked].flatMap(([integratorId, holder]) =>
    joint.limit.recordLocked(integratorId, holder, now) ? [integratorId] : [])
  joint.limit.released([...attempted.reached, ...locked])
  let count = yield* quarantine(joint, locked, { reason: "locked", error: "The vault is locked by another session" })
  for (const [integratorId, error] of attempted.failed) {
    count += yield* quarantine(joint, [integratorId], { reason: "failing", error })
  }
  return attempted.units + count
})

/** Where the budget did not reach all integrators, lets the next batch begin with the first that was not reached. */
const moveCursor = ({ scan }: Joint, lanes: ReadonlyArray<LaneKey>, { failed, isComplete, reached }: Attempted) => {
  if (isComplete) return
  const served = new Set<string>([...reached, ...failed.keys()])
  scan.cursor = lanes.findLast((lane) => served.has(lane.integratorId)) ?? scan.cursor
}

const quarantine = Effect.fnUntraced(function*(
  joint: Joint,
  integratorIds: Iterable<string>,
  failure: Quarantine.Failure
) {
  let count = 0
  for (const integratorId of integratorIds) {
    yield* Quarantine.add(integratorId, failure)
    joint.limit.quarantined(integratorId)
    count += 1
  }
  if (count > 0) joint.onQuarantined()
  return count
})
