import { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { earn, refund } from "@card-rewards/domain/Reward"
import { Clock, Context, Effect, Option } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import * as Database from "./Database.ts"
import { Behind } from "./Ledger/Behind.ts"
import type { Book } from "./Ledger/Book.ts"
import { applyAnyones, applyDue, passOn } from "./Ledger/Due.ts"
import { isAssigned, matureReward, reserve } from "./Ledger/Funding.ts"
import * as Load from "./Ledger/Load.ts"
import { type RewardRow, rewardKey } from "./Ledger/RewardRow.ts"
import * as Writes from "./Ledger/Writes.ts"

export { Behind } from "./Ledger/Behind.ts"
export { Book } from "./Ledger/Book.ts"
export { passOn } from "./Ledger/Due.ts"
export { ServedAtOnce } from "./Ledger/Funding.ts"
export type { Touched } from "./Ledger/Load.ts"
export { PaidAtOnce, payClaim } from "./Ledger/Payouts.ts"

/** What a clearing earns in one program; see {@link earnReward}. */
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

/** How many due rewards of touched users and of users who owe one transaction applies (decisions, section 6). */
export const PieceSize = Context.Reference<number>("@card-rewards/core/Ledger/PieceSize", { defaultValue: () => 250 })

/** How many rewards of each kind of background work one transaction of the worker applies. */
export const WorkSize = Context.Reference<number>("@card-rewards/core/Ledger/WorkSize", { defaultValue: () => 250 })

/** How long a request applies what is due before it is told to come again, in milliseconds. */
export const CatchUpMillis = Context.Reference<number>("@card-rewards/core/Ledger/CatchUpMillis", {
  defaultValue: () => 2_500
})

/** A vault's part of it at least, where one transaction opens many. */
const leastPiece = 50

const openPiece = Effect.fnUntraced(function*(touched: ReadonlyArray<Load.Touched>) {
  const whole = yield* PieceSize
  const size = Math.max(Math.min(whole, leastPiece), Math.ceil(whole / Math.max(1, touched.length)))
  const books = yield* Load.lockVaults(touched.map((one) => one.integratorId), size)
  for (const { integratorId, userIds } of touched) {
    const book = books.get(integratorId)
    for (const userId of userIds) book?.touch(userId)
  }
  yield* Load.readUsers(books, touched, size + 1)
  yield* Load.readRefunded(books, touched)
  yield* applyDue(books)
  return books
})

/**
 * Locks the vaults (in key order), opens their books at the integrators' present time and applies what is due to the
 * touched users and to users who owe, so that what follows sees money as it stands now (decisions, section 6). Runs
 * inside the caller's transaction. {@link Behind} names the vaults where more is due than one transaction applies.
 */
export const open = Effect.fnUntraced(function*(touched: ReadonlyArray<Load.Touched>) {
  const books = yield* openPiece(touched)
  const behind = touched.filter(({ integratorId }) => books.get(integratorId)?.isBehind === true)
  if (behind.length > 0) return yield* new Behind({ touched: behind, became: "before" })
  return books
})

/** Applies one piece of what is due, in a transaction of its own; returns whether that was all of it. */
export const catchUp = (
  touched: ReadonlyArray<Load.Touched>
): Effect.Effect<boolean, Unavailable, SqlClient.SqlClient> =>
  Database.transaction(Effect.gen(function*() {
    const books = yield* openPiece(touched)
    yield* write(books.values())
    return [...books.values()].every((book) => !book.isBehind)
  }))

/**
 * {@link catchUp} to the end, for a request: after {@link CatchUpMillis} it is Unavailable, and the pieces are kept.
 */
export const applyAllDue = Effect.fnUntraced(function*(touched: Load.Touched) {
  const begun = yield* Clock.monotonicTimeNanos
  while (!(yield* catchUp([touched]))) yield* requireTime(begun)
})

const requireTime = Effect.fnUntraced(function*(begunNanos: bigint) {
  const millis = Number((yield* Clock.monotonicTimeNanos) - begunNanos) / 1e6
  if (millis > (yield* CatchUpMillis)) {
    return yield* new Unavailable({ message: "Many rewards are due and being applied; send the same request again" })
  }
})

/**
 * One operation on a vault, in one transaction with what is due before it. Where more is due than one transaction
 * applies, pieces of it come first, each in a transaction of its own. Where that takes longer than {@link
 * CatchUpMillis} it is Unavailable; the pieces are kept, so that the same request comes further each time.
 */
export const operate = Effect.fnUntraced(function*<A, E, R>(
  touched: Load.Touched,
  operation: (book: Book) => Effect.Effect<A, E | SqlError.SqlError, R>
) {
  const begun = yield* Clock.monotonicTimeNanos
  while (true) {
    const result = yield* Database.transaction(Effect.gen(function*() {
      const book = (yield* openPiece([touched])).get(touched.integratorId)
      if (book === undefined) return yield* Effect.die(new Error("an integrator without a vault"))
      const done = book.isBehind ? Option.none() : Option.some(yield* operation(book))
      yield* write([book])
      return done
    }))
    if (Option.isSome(result)) return result.value
    yield* requireTime(begun)
  }
})

/**
 * The next background work on a vault: what is due or unfinished of anyone, up to {@link WorkSize} of each kind. Runs
 * inside the caller's transaction; returns how many changes that were.
 */
export const work = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const books = yield* openPiece([{ integratorId, userIds: new Set(), clearings: [] }])
  const limit = yield* WorkSize
  for (const book of books.values()) yield* applyAnyones(book, limit)
  yield* write(books.values())
  return [...books.values()].reduce((sum, book) => sum + book.events.length, 0)
})

/** A clearing has earned in a program: reserved where free money covers it, claimable at once where it is due. */
export const earnReward = Effect.fnUntraced(function*(book: Book, reward: EarnedReward) {
  const { earned, spend, ...row } = reward
  const created = book.create(
    { ...row, integratorId: book.integratorId, kind: "clearing" },
    earn(earned, spend, book.vault[reward.asset].free)
  )
  if (created.state === "AwaitingFunding") {
    book.waiting(created.asset).push(created)
  } else if (created.claimableAt <= book.now) {
    const free = book.vault[reward.asset].free
    matureReward(book, created)
    if (book.vault[reward.asset].free > free) yield* passOn(book, reward.asset)
  }
})

/** The refunds of a clearing now add up to `refundedCents`: each of its rewards shrinks in proportion. */
export const refundClearing = Effect.fnUntraced(function*(
  book: Book,
  userId: string,
  programIds: ReadonlyArray<string>,
  externalTransactionId: string,
  refundedCents: bigint
) {
  for (const programId of programIds) {
    const known = book.rewards.get(rewardKey({ userId, kind: "clearing", externalTransactionId, programId }))
    const row = known !== undefined && isAssigned(book, known) ? reserve(book, known, "assigned") : known
    const change = row && refund(row, refundedCents)
    if (row === undefined || change === undefined) continue
    book.change(row, change)
    yield* passOn(book, row.asset)
  }
})

/** Writes what the books have changed: rewards, balances, journal, events and their deliveries. */
export const write = (books: Iterable<Book>): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Writes.write([...books])
