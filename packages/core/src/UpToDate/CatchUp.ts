import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { Clock, Effect, Exit } from "effect"
import type * as Batcher from "../Batcher.ts"
import * as Ledger from "../Ledger.ts"

/** A read that waits until what is due to its user is applied. */
export interface DueRead {
  readonly integratorId: IntegratorId
  readonly userId: UserId
  /** Whether a piece with the user was not everything, or failed: the next one is of few users. */
  isSlow: boolean
  /** When the last piece with the user ended, or else when the read began, in milliseconds. */
  waitingSince: number
}

/** How much of what is due to a read's user a batch has applied; with `none` the read waits for another batch. */
export type Applied = "all" | "some" | "none"

type Reads = ReadonlyArray<Batcher.Pending<DueRead, Applied, Unavailable>>

/** Milliseconds after which a batch begins no further piece: other integrators wait for its end. */
const batchMillis = 250

/**
 * Applies due rewards of the users of one integrator's reads, in pieces of one transaction each, and answers all reads.
 * The user who has waited longest is in the first piece. The batch ends with the first piece that is not everything, or
 * that fails: other integrators wait for no more than that, and the other users for another batch.
 *
 * A user with many due rewards, or with a broken row, does not keep the others of the integrator from being answered:
 * after the piece that they were in together all of them are slow, and the next batches have one of them in the first
 * piece, and twice as many in each further one.
 */
export const catchUpBatch = Effect.fnUntraced(function*(reads: Reads) {
  const endNanos = (yield* Clock.monotonicTimeNanos) + BigInt(batchMillis) * 1_000_000n
  let users = byUser(reads)
  for (let maxSlow = 1; users.length > 0; maxSlow *= 2) {
    const piece = nextPiece(users, maxSlow)
    const isEverything = yield* applyPiece([...piece])
    users = users.filter((user) => !piece.has(user))
    if (!isEverything || (yield* Clock.monotonicTimeNanos) >= endNanos) break
  }
  for (const { reads } of users) for (const { complete } of reads) complete(Exit.succeed("none"))
})

/** A user's reads. */
interface User {
  readonly reads: Reads
  readonly isSlow: boolean
  readonly waitingSince: number
}

/** The user who has waited longest is first. */
const byUser = (reads: Reads): ReadonlyArray<User> =>
  [...Map.groupBy(reads, ({ request }) => request.userId).values()].map((reads) => ({
    reads,
    isSlow: reads.some(({ request }) => request.isSlow),
    waitingSince: Math.min(...reads.map(({ request }) => request.waitingSince))
  })).toSorted((a, b) => a.waitingSince - b.waitingSince)

/** All users who are not slow, or up to `maxSlow` of those who are: whichever the first user is. */
const nextPiece = (users: ReadonlyArray<User>, maxSlow: number): ReadonlySet<User> => {
  const isSlow = users[0]?.isSlow === true
  return new Set(users.filter((user) => user.isSlow === isSlow).slice(0, isSlow ? maxSlow : undefined))
}

/** Returns whether the piece was everything that is due to the users. */
const applyPiece = Effect.fnUntraced(function*(users: ReadonlyArray<User>) {
  const reads = users.flatMap((user) => user.reads)
  const [first] = reads
  if (first === undefined) return true
  const userIds = new Set(reads.map(({ request }) => request.userId))
  const exit = yield* Effect.exit(
    Ledger.catchUp([{ integratorId: first.request.integratorId, userIds }])
  )
  const now = yield* Clock.currentTimeMillis
  const isEverything = Exit.isSuccess(exit) && exit.value
  const answer = Exit.hasDies(exit) && users.length > 1
    ? Exit.succeed("none" as const)
    : Exit.map(exit, (isAll) => isAll ? "all" as const : "some" as const)
  for (const { complete, request } of reads) {
    request.isSlow ||= !isEverything
    request.waitingSince = now
    complete(answer)
  }
  return isEverything
})
