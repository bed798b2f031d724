import { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { assets } from "@card-rewards/domain/Money"
import { earn, refund } from "@card-rewards/domain/Reward"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import * as Database from "./Database.ts"
import type { Behind, Touched } from "./Ledger/Behind.ts"
import { Book, type RewardRow, rewardKey, userKey } from "./Ledger/Book.ts"
import {
  isAssigned,
  matureReward,
  recoverAssigned,
  reserve,
  reserveAssigned,
  ServedAtOnce,
  serveWaiting
} from "./Ledger/Funding.ts"
import * as Load from "./Ledger/Load.ts"
import * as Writes from "./Ledger/Writes.ts"

export type { Touched } from "./Ledger/Behind.ts"

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

/** How many rewards beyond those of the touched users one transaction reserves or makes Claimable. */
export const dueBatch = 250

/**
 * Locks the vaults (in key order), opens their books at the integrators' present time and applies what is due to the
 * touched users and to users who owe, so that what follows sees money as it stands now (decisions, section 6).
 * Runs inside the caller's transaction. With `alsoDue`, up to {@link dueBatch} rewards of anyone are applied too.
 */
export const open = Effect.fnUntraced(function*(
  touched: ReadonlyArray<Touched>,
  options: { readonly alsoDue?: boolean } = {}
): Effect.fn.Return<ReadonlyMap<IntegratorId, Book>, SqlError.SqlError | Behind, SqlClient.SqlClient> {
  const books = yield* Load.lockVaults(touched.map((one) => one.integratorId))
  yield* Load.readUsers(books, touched)
  yield* Load.readRefunded(books, touched)
  let left = options.alsoDue === true ? dueBatch : 0
  for (const { integratorId, userIds } of touched) {
    const book = books.get(integratorId)
    if (book === undefined) continue
    for (const asset of assets) {
      if (book.vault[asset].assigned === 0n) continue
      const rows = yield* Load.readAssigned(book, asset, userIds, left)
      yield* reserveAssigned(book, rows)
      left = Math.max(0, left - rows.length)
      yield* recoverAssigned(book, asset)
    }
  }
  const due = yield* Load.readDue(books, left)
  for (const [book, rows] of due) yield* applyDue(book, rows)
  return books
})

/** What a request is answered while more is due than one transaction applies. */
export const refuseBehind = ({ limit }: Behind): Effect.Effect<never, Unavailable> =>
  Effect.fail(
    new Unavailable({ message: `More than ${limit} rewards of a user are due and being applied; send the same request again` })
  )

/** Applies one piece of what is due, in a transaction of its own; answers whether nothing more is due. */
export const catchUp = Effect.fnUntraced(function*(touched: ReadonlyArray<Touched>) {
  const sql = yield* SqlClient.SqlClient
  return yield* Database.step(sql.withTransaction(Effect.gen(function*() {
    const books = yield* open(touched.map((one) => ({ ...one, userIds: new Set() })), { alsoDue: true })
    yield* write(books.values())
    return [...books.values()].every((book) => book.events.length === 0)
  })))
})

const applyDue = Effect.fnUntraced(function*(book: Book, due: ReadonlySet<RewardRow>) {
  const inOrder = [...due].sort((a, b) => a.claimableAt - b.claimableAt || Load.byCreation(a, b))
  for (const row of inOrder) {
    const present = book.rewards.get(rewardKey(row))
    if (present?.state !== "Pending") continue
    const free = book.vault[row.asset].free
    matureReward(book, present)
    if (book.vault[row.asset].free > free) yield* serveWaiting(book, row.asset)
  }
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
    if (book.vault[reward.asset].free > free) yield* serveWaiting(book, reward.asset)
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
    yield* serveWaiting(book, row.asset)
  }
})

/** Writes what the books have changed: rewards, balances, journal, events and their deliveries. */
export const write = (books: Iterable<Book>): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Writes.write([...books])

export { Book, type RewardRow, rewardKey, ServedAtOnce, serveWaiting, userKey }
