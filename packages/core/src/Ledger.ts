import { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { earn, refund } from "@card-rewards/domain/Reward"
import { Clock, Context, Effect, Option } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import * as Database from "./Database.ts"
import { Behind } from "./Ledger/Behind.ts"
import type { Book } from "./Ledger/Book.ts"
import { applyAllUsers, applyDue, applyOutsideOrder, fundWaiting } from "./Ledger/Due.ts"
import { isAssigned, matureReward, reserve } from "./Ledger/Funding.ts"
import * as Load from "./Ledger/Load.ts"
import { type RewardRow, rewardKey } from "./Ledger/RewardRow.ts"
import * as Writes from "./Ledger/Writes.ts"

export { Behind } from "./Ledger/Behind.ts"
export { Book } from "./Ledger/Book.ts"
export { fundWaiting } from "./Ledger/Due.ts"
export { ServedAtOnce } from "./Ledger/Funding.ts"
export type { Touched } from "./Ledger/Load.ts"
export { PaidAtOnce, payClaim } from "./Ledger/Payouts.ts"

/** A reward that a clearing earns in one program; see {@link earnReward}. */
export type EarnedReward = Pick<
  RewardRow,
  | "userId"
  | "externalTransactionId"
  | "programId"
  | "programVersion"
  | "asset"
  | "categoryId"
  | "purchaseAt"
  | "currency"
  | "monthUsedBefore"
  | "categoryUsedBefore"
  | "claimableAt"
  | "earned"
  | "spend"
>

/**
 * The maximum number of due rewards of touched users, and of users who owe, that one transaction applies (decisions,
 * section 6).
 */
export const PieceSize = Context.Reference<number>("@card-rewards/core/Ledger/PieceSize", { defaultValue: () => 250 })

/** The maximum number of rewards of each kind of background work that one transaction of the worker applies. */
const workSize = 250

/** Milliseconds for which a request applies due rewards before it fails with {@link Unavailable}. */
export const CatchUpMillis = Context.Reference<number>("@card-rewards/core/Ledger/CatchUpMillis", {
  defaultValue: () => 2_500
})

/** The minimum share of {@link PieceSize} of each vault where one transaction opens many. */
const minPieceSize = 50

/** How many due rewards of each vault a transaction applies that opens so many vaults. */
const pieceSizeOf = (vaults: number) =>
  Effect.map(PieceSize, (whole) => Math.max(Math.min(whole, minPieceSize), Math.ceil(whole / vaults)))

const openPiece = Effect.fnUntraced(function*(touched: ReadonlyArray<Load.Touched>) {
  const size = yield* pieceSizeOf(touched.length)
  const books = yield* Load.openBooks(touched, size)
  for (const { integratorId, userIds } of touched) {
    const book = books.get(integratorId)
    if (book === undefined) return yield* Effect.die(new Error(`the integrator ${integratorId} has no vault`))
    for (const userId of userIds) book.touch(userId)
  }
  yield* Load.readRefunded(books, touched)
  yield* applyDue(books)
  return books
})

/**
 * Locks vaults and opens their books for a transaction that is committed also where they are behind: so this one
 * applies, beyond what {@link openPiece} does, due rewards that need not wait for those of users who owe.
 */
const lockAndOpenPiece = Effect.fnUntraced(function*(touched: ReadonlyArray<Load.Touched>) {
  yield* Load.lockVaults(touched.map((one) => one.integratorId))
  const books = yield* openPiece(touched)
  yield* applyOutsideOrder(books.values(), yield* pieceSizeOf(touched.length))
  return books
})

/**
 * Opens the books of vaults that the caller's transaction has locked, at the integrators' current time, and applies
 * what is due to the touched users and to users who owe, so that the caller's operation sees current balances
 * (decisions, section 6). Fails with {@link Behind} where more is due than one transaction applies.
 */
export const openLocked = Effect.fnUntraced(function*(touched: ReadonlyArray<Load.Touched>) {
  const books = yield* openPiece(touched)
  const behind = touched.filter(({ integratorId }) => books.get(integratorId)?.isBehind === true)
  if (behind.length > 0) return yield* new Behind({ touched: behind, became: "before" })
  return books
})

/**
 * As {@link openLocked}, after it has locked the vaults in key order, in a transaction that has read that the cell owns
 * their slots.
 */
export const lockAndOpen = (touched: ReadonlyArray<Load.Touched>) =>
  Effect.andThen(Load.lockOwnedVaults(touched.map((one) => one.integratorId)), openLocked(touched))

/**
 * Applies up to {@link PieceSize} due rewards in a transaction of its own; returns whether these were all. Of touched
 * users who owe nothing it applies as many even where those of users who owe come before.
 */
export const catchUp = (
  touched: ReadonlyArray<Load.Touched>
): Effect.Effect<boolean, Unavailable, SqlClient.SqlClient> =>
  Database.transaction(Effect.gen(function*() {
    const books = yield* lockAndOpenPiece(touched)
    yield* write(books.values())
    return [...books.values()].every((book) => !book.isBehind)
  }))

/**
 * Repeats {@link catchUp} for a request until it has applied all that the request needs. After {@link CatchUpMillis} it
 * fails with {@link Unavailable}; what was applied stays applied.
 */
export const applyAllDue = Effect.fnUntraced(function*<E, R>(catchUp: Effect.Effect<boolean, E, R>) {
  const startedNanos = yield* Clock.monotonicTimeNanos
  while (!(yield* catchUp)) yield* requireTime(startedNanos)
})

const requireTime = Effect.fnUntraced(function*(startedNanos: bigint) {
  const millis = Number((yield* Clock.monotonicTimeNanos) - startedNanos) / 1e6
  if (millis > (yield* CatchUpMillis)) {
    return yield* new Unavailable({ message: "Many rewards are due and being applied; send the same request again" })
  }
})

/**
 * Carries out one operation on a vault, in one transaction with what is due before it. Where more is due than one
 * transaction applies, and `operation` returns none because it depends on that, earlier transactions apply it in
 * pieces. After {@link CatchUpMillis} of that it fails with {@link Unavailable}; the pieces stay applied, so that each
 * retry of the request starts with less due.
 */
export const operate = Effect.fnUntraced(function*<A, E, R>(
  touched: Load.Touched,
  operation: (book: Book) => Effect.Effect<Option.Option<A>, E | SqlError.SqlError, R>
) {
  const startedNanos = yield* Clock.monotonicTimeNanos
  while (true) {
    const result = yield* Database.transaction(Effect.gen(function*() {
      const book = (yield* lockAndOpenPiece([touched])).get(touched.integratorId)
      if (book === undefined) return yield* Effect.die(new Error("an integrator without a vault"))
      const done = yield* operation(book)
      yield* write([book])
      return done
    }))
    if (Option.isSome(result)) return result.value
    yield* requireTime(startedNanos)
  }
}, Database.withOneDeadline)

/**
 * Does the next background work on a vault: due rewards, assigned rewards and unfinished claims of all users, up to
 * {@link workSize} of each kind. Runs inside the caller's transaction; returns the number of reward changes.
 */
export const work = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const books = yield* lockAndOpenPiece([{ integratorId, userIds: new Set() }])
  for (const book of books.values()) yield* applyAllUsers(book, workSize)
  yield* write(books.values())
  return [...books.values()].reduce((sum, book) => sum + book.events.length, 0)
})

/**
 * Creates a reward: reserved where free money covers it, and claimable at once where its holding period is over.
 * Returns whether it has freed money, by a recovery: then {@link fundWaiting} must follow.
 */
export const earnReward = (book: Book, reward: EarnedReward): boolean => {
  const vault = book.vault[reward.asset]
  const created = book.create(reward, earn(reward.earned, reward.spend, vault.free))
  if (created.state === "AwaitingFunding") book.waiting(created.asset).push(created)
  if (created.state !== "Pending" || created.claimableAt > book.now) return false
  const { free } = vault
  matureReward(book, created)
  return vault.free > free
}

/** A clearing whose rewards a refund reduces; see {@link refundClearing}. */
export interface RefundedClearing {
  readonly userId: string
  readonly externalTransactionId: string
  /** The programs in which the clearing earned a reward. */
  readonly programIds: ReadonlyArray<string>
  /** The sum of all refunds of the clearing, in the minor unit of its currency. */
  readonly refundedCents: bigint
}

/** Reduces the rewards of a clearing in proportion to its refunds. */
export const refundClearing = Effect.fnUntraced(function*(
  book: Book,
  { externalTransactionId, programIds, refundedCents, userId }: RefundedClearing
) {
  for (const programId of programIds) {
    const known = book.rewards.get(rewardKey({ userId, kind: "clearing", externalTransactionId, programId }))
    const row = known !== undefined && isAssigned(book, known) ? reserve(book, known, "assigned") : known
    const change = row && refund(row, refundedCents)
    if (row === undefined || change === undefined) continue
    book.change(row, change)
    yield* fundWaiting(book, row.asset)
  }
})

export { prepare as prepareWrite } from "./Ledger/Writes.ts"

const write = (books: Iterable<Book>) => Effect.flatten(Writes.prepare([...books], []))
