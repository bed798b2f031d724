import type { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import * as Database from "../Database.ts"
import * as Ledger from "../Ledger.ts"
import { attempt, type Shared } from "./Attempt.ts"
import * as Quarantine from "./Quarantine.ts"
import { lanesOf } from "./Queue.ts"

/** How long one integrator is attended to before the next one; its transaction under way is finished. */
const attemptMillis = 1_000

/** How long the lease is tried to be given back when the database does not answer; then it ends by itself. */
const giveBackMillis = 500

/** Transactions of one attempt. */
const maxTransactions = 200

type Result =
  | { readonly kind: "recovered" | "unfinished"; readonly units: number }
  | { readonly kind: "failed"; readonly units: number; readonly failure: Quarantine.Failure }

/**
 * Attempts the events of the integrator in quarantine whose attempt is due longest. Any number of processes may do so
 * at once: each takes another integrator. Answers whether one was due, and how much was done.
 */
export const retryNext = Effect.fnUntraced(function*(shared: Shared) {
  const lease = yield* Quarantine.lease()
  if (lease === undefined) return 0
  // what is unavailable for a moment need not wait for the lease to end
  const result = yield* Effect.tapError(attemptAlone(shared, lease), () =>
    Effect.ignore(Quarantine.continueLater(lease).pipe(Effect.provideService(Database.StepMillis, giveBackMillis))))
  if (result.kind === "failed") yield* Quarantine.fail(lease, result.failure)
  else if (result.kind === "unfinished") yield* Quarantine.continueLater(lease)
  else yield* Quarantine.release(lease)
  return Math.max(1, result.units)
})

/**
 * Processes what an integrator has stored, in transactions of its own, until nothing is left or the time is over. Its
 * due rewards are applied piece by piece where they are too many.
 */
const attemptAlone = Effect.fnUntraced(function*(
  shared: Shared,
  { integratorId }: Quarantine.Lease
): Effect.fn.Return<Result, Unavailable, SqlClient.SqlClient> {
  const until = (yield* Clock.monotonicTimeNanos) + BigInt(attemptMillis) * 1_000_000n
  const deadlineMillis = yield* Database.StepMillis
  let units = 0
  let maxUnits: number | undefined
  let isOneNext = false
  for (let count = 0; count < maxTransactions; count++) {
    const isOver = count > 0 && (yield* Clock.monotonicTimeNanos) >= until
    if (isOver && !isOneNext) return { kind: "recovered", units }
    isOneNext = false
    const lanes = yield* Database.backgroundStep(lanesOf(integratorId))
    if (lanes.length === 0) break
    const options = {
      lanes,
      heldLanes: "waitFor",
      heldVaults: "waitFor",
      deadlineMillis,
      ...(maxUnits === undefined ? {} : { maxUnits })
    } as const
    const result = yield* attempt(shared, options).pipe(
      Effect.map((attempted): Result => {
        const error = attempted.failed.get(integratorId)
        return attempted.failed.has(integratorId)
          ? { kind: "failed", units, failure: { reason: "failing", error } }
          : { kind: "recovered", units: attempted.units }
      }),
      Effect.catchTags({
        Behind: ({ became, touched }) => {
          // what one event makes due is applied before the next event; joint batches would be rolled back again, so
          // that one event at least is applied here, whatever the time
          isOneNext = became === "within"
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
    if (result.kind !== "recovered") return { ...result, units }
  }
  return { kind: "recovered", units }
})

const failed = (failure: Quarantine.Failure) => Effect.succeed<Result>({ kind: "failed", units: 0, failure })

/** Applies pieces of what is due; recovered once nothing more is, so that the events come next. */
const catchUp = (touched: ReadonlyArray<Ledger.Touched>, until: bigint) =>
  Effect.gen(function*() {
    for (let pieces = 1; pieces <= maxTransactions; pieces++) {
      if (yield* Ledger.catchUp(touched)) return { kind: "recovered", units: pieces } satisfies Result
      if ((yield* Clock.monotonicTimeNanos) >= until) return { kind: "unfinished", units: pieces } satisfies Result
    }
    return { kind: "unfinished", units: maxTransactions } satisfies Result
  }).pipe(
    Effect.catchDefect((error) => failed({ reason: "failing", error }))
  )

