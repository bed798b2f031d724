import type { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import * as Database from "../Database.ts"
import * as Ledger from "../Ledger.ts"
import * as Quarantine from "./Quarantine.ts"
import { lanesOf } from "./Queue.ts"
import { processBatch, type Shared } from "./Transaction.ts"

/** Milliseconds after which a retry begins no further transaction, so that other integrators are retried too. */
const retryMillis = 1_000

/** Deadline for returning the lease while the database does not answer; after that the next retry returns it. */
const returnLeaseMillis = 500

/** The maximum number of transactions of one retry. */
const maxTransactions = 200

/** `stillBehind`: due rewards were applied, and more are left for the next retry. */
type Result =
  | { readonly kind: "processed" | "stillBehind"; readonly units: number }
  | { readonly kind: "failed"; readonly units: number; readonly failure: Quarantine.Failure }

/**
 * A worker's step that retries the integrator in quarantine whose retry has been due the longest. Any number of
 * processes may do so at once: each leases another integrator. Returns the units of work done, at least 1 where a retry
 * was due, and 0 where none was.
 */
export const make = (shared: Shared): Effect.Effect<number, Unavailable, SqlClient.SqlClient> => {
  /**
   * Leases that could not be returned: after an outage of the database, or a move of the slot that is given up, the
   * next retries need not wait for their ends.
   */
  const unreturned = new Set<Quarantine.Lease>()
  const giveBack = Effect.fnUntraced(function*(lease: Quarantine.Lease) {
    const isReturned = yield* Quarantine.continueLater(lease)
    if (isReturned || lease.leasedUntil <= (yield* Clock.currentTimeMillis)) unreturned.delete(lease)
  })
  return Effect.gen(function*() {
    yield* Effect.forEach([...unreturned], giveBack)
    const lease = yield* Quarantine.lease()
    if (lease === undefined) return 0
    const { isReturned, units } = yield* retry(shared, lease).pipe(
      // also after a stop of this process
      Effect.onError(() => {
        unreturned.add(lease)
        return giveBack(lease).pipe(Effect.provideService(Database.StepMillis, returnLeaseMillis), Effect.ignoreCause)
      })
    )
    if (!isReturned) unreturned.add(lease)
    return Math.max(1, units)
  })
}

const retry = Effect.fnUntraced(function*(shared: Shared, lease: Quarantine.Lease) {
  const result = yield* retryAlone(shared, lease).pipe(
    Effect.catchDefect((error) => failed({ reason: "failing", error }))
  )
  const { units } = result
  if (result.kind === "failed") return { units, isReturned: yield* Quarantine.fail(lease, result.failure) }
  const end = result.kind === "stillBehind" ? Quarantine.continueLater : Quarantine.release
  return { units, isReturned: yield* end(lease) }
})

/**
 * Processes the stored events of one integrator, in transactions of its own, until none is left or
 * {@link retryMillis} are over. Where too many rewards are due for one transaction, applies them in several.
 */
const retryAlone = Effect.fnUntraced(function*(
  shared: Shared,
  { integratorId }: Quarantine.Lease
): Effect.fn.Return<Result, Unavailable, SqlClient.SqlClient> {
  const until = (yield* Clock.monotonicTimeNanos) + BigInt(retryMillis) * 1_000_000n
  const deadlineMillis = yield* Database.StepMillis
  let units = 0
  let maxUnits: number | undefined
  let isOneNext = false
  for (let count = 0; count < maxTransactions; count++) {
    const isOver = count > 0 && (yield* Clock.monotonicTimeNanos) >= until
    if (isOver && !isOneNext) return { kind: "processed", units }
    isOneNext = false
    const lanes = yield* Database.backgroundStep(lanesOf(integratorId))
    if (lanes.length === 0) break
    const options = {
      lanes,
      lockedLanes: "wait",
      lockedVaults: "wait",
      deadlineMillis,
      ...(maxUnits === undefined ? {} : { maxUnits })
    } as const
    const result = yield* processBatch(shared, options).pipe(
      Effect.map(({ failed, units }): Result => {
        const error = failed.get(integratorId)
        return failed.has(integratorId)
          ? { kind: "failed", units, failure: { reason: "failing", error } }
          : { kind: "processed", units }
      }),
      Effect.catchTags({
        Behind: ({ became, touched }) => {
          // the rewards that one event makes due must be applied before the next event. A joint batch would roll back
          // again, so this retry applies at least one event, even after its time is over
          isOneNext = became === "during"
          if (isOneNext) maxUnits = 1
          return catchUp(touched, until)
        },
        LockTimeout: () => failed({ reason: "locked", error: "The vault or a lane is locked by another session" }),
        DeadlineExceeded: () =>
          failed({ reason: "failing", error: `Not done within ${deadlineMillis} ms, without any other integrator` }),
        Defect: ({ error }) => failed({ reason: "failing", error })
      })
    )
    units += result.units
    if (result.kind !== "processed") return { ...result, units }
  }
  return { kind: "processed", units }
})

const failed = (failure: Quarantine.Failure) => Effect.succeed<Result>({ kind: "failed", units: 0, failure })

/** Applies due rewards in several transactions. The result is `processed` once none is left; the events come next. */
const catchUp = (touched: ReadonlyArray<Ledger.Touched>, until: bigint) =>
  Effect.gen(function*() {
    for (let pieces = 1; pieces <= maxTransactions; pieces++) {
      if (yield* Ledger.catchUp(touched)) return { kind: "processed", units: pieces } satisfies Result
      if ((yield* Clock.monotonicTimeNanos) >= until) return { kind: "stillBehind", units: pieces } satisfies Result
    }
    return { kind: "stillBehind", units: maxTransactions } satisfies Result
  })
