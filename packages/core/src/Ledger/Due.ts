import type { IntegratorId } from "@card-rewards/domain/Ids"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { literal } from "../Database/Table.ts"
import { byDuePosition, type Payout } from "./Accounts.ts"
import type { Book } from "./Book.ts"
import { isAssigned, matureReward, reserve, serveWaiting } from "./Funding.ts"
import { readAssignable, readMissingUsers } from "./Load.ts"
import { readAssigned, readDue } from "./Pages.ts"
import { continuePayout } from "./Payouts.ts"
import { type RewardRow, rewardKey } from "./RewardRow.ts"

/**
 * Applies what is due to the touched users and to users who owe, in order (decisions, section 6): unfinished claims,
 * then assigned rewards by creation, then Pending rewards by `(claimableAt, creation)`. Money that a step frees funds
 * waiting rewards before the next step. A book whose budget does not suffice is behind afterwards.
 */
export const applyDue = Effect.fnUntraced(function*(books: ReadonlyMap<IntegratorId, Book>) {
  for (const book of books.values()) {
    yield* continuePayouts(book)
    for (const asset of assets) yield* reserveAssigned(book, asset)
  }
  const due = yield* readDue([...books.values()].filter((book) => !book.isBehind))
  for (const book of books.values()) {
    if (!book.isBehind) yield* matureInOrder(book, [...due.get(book) ?? [], ...reservedAndDue(book)])
  }
})

/**
 * Where users who owe have left books behind after {@link applyDue}, applies due rewards of touched users who owe
 * nothing, up to `limit` in each book. These free no money, so that they need not wait for those of users who owe.
 * Where these were all, it sets {@link Book.isOnlyOwingBehind}.
 */
export const applyOutsideOrder = Effect.fnUntraced(function*(books: Iterable<Book>, limit: number) {
  const behind = [...books].filter(({ accounts, isBehind }) => isBehind && accounts.some(({ owed }) => owed > 0n))
  for (const book of behind) book.budget = limit
  const due = yield* readDue(behind, (book, { asset, owed, userId }) => owed === 0n && !book.isClaiming(userId, asset))
  for (const book of behind) {
    const rows = due.get(book) ?? []
    yield* matureInOrder(book, rows)
    book.isOnlyOwingBehind = rows.length <= limit && !reservedAndDue(book).some(({ asset, userId }) =>
      book.user(userId, asset).owed === 0n)
  }
})

/** Continues the claims of touched users and of users who owe, none of whose rewards may mature before. */
const continuePayouts = Effect.fnUntraced(function*(book: Book) {
  if (book.payouts.size === 0) return
  for (const accounts of book.usersInScope()) {
    const payout = book.payouts.get(accounts)
    if (payout !== undefined) yield* continuePayout(book, payout)
  }
})

/** Funds waiting rewards with the free money, and with the money that recoveries from these rewards free. */
export const fundWaiting = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  if (yield* serveWaiting(book, asset)) yield* reserveAssigned(book, asset)
})

/**
 * Reserves the assigned rewards of touched users and of users who owe, in order of creation. A reward that was due when
 * its money was assigned matures at once: what it recovers is free money, which other rewards may be waiting for.
 */
const reserveAssigned = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const vault = book.vault[asset]
  while (vault.assigned > 0n && book.reservedTo[asset] < vault.assignedTo) {
    // users whose stored row is outdated may sort before those still to be read
    yield* readAssignable(book, asset, book.budget + book.outdatedFirsts + 1)
    yield* continuePayouts(book)
    if (book.isBehind) return
    const { rows, upTo } = yield* readAssigned(book, asset)
    for (const row of rows) {
      const present = book.rewards.get(rewardKey(row))
      if (present === undefined || !isAssigned(book, present)) continue
      if (book.budget === 0) {
        book.isBehind = true
        return
      }
      book.budget--
      book.reservedTo[asset] = row.creation
      const free = vault.free
      const funded = reserve(book, present, "assigned")
      if (vault.assignedAt !== null && funded.claimableAt <= vault.assignedAt) matureReward(book, funded)
      // an assignment made while earlier ones are being reserved counts as made at their time
      if (vault.free > free) yield* serveWaiting(book, asset, vault.assignedAt)
    }
    book.reservedTo[asset] = upTo
  }
})

/** The due rewards of {@link Book.usersInScope} that this transaction has reserved. */
const reservedAndDue = (book: Book): ReadonlyArray<RewardRow> => {
  if (book.changed.size === 0) return []
  const inScope = new Set(book.usersInScope())
  return [...book.changed].flatMap((key) => book.rewards.get(key) ?? []).filter((row) =>
    row.state === "Pending" && row.claimableAt <= book.now && inScope.has(book.user(row.userId, row.asset)))
}

const matureInOrder = Effect.fnUntraced(function*(book: Book, due: ReadonlyArray<RewardRow>) {
  for (const row of due.toSorted(byDuePosition)) {
    const present = book.rewards.get(rewardKey(row))
    if (present?.state !== "Pending") continue
    if (book.budget === 0) {
      book.isBehind = true
      return
    }
    book.budget--
    const free = book.vault[row.asset].free
    matureReward(book, present)
    if (book.vault[row.asset].free === free) continue
    // only money that was freed stops this: the book may have been behind before
    yield* fundWaiting(book, row.asset)
    if (book.isBehind) return
  }
})

/** The maximum number of rewards of users who must wait that the worker skips to find those of others. */
const maxSkipped = 5_000

/**
 * The worker's work on one vault, after {@link applyDue}: unfinished claims, due rewards and assigned rewards of all
 * users, up to `limit` of each kind, so that no kind waits for another. Where {@link applyDue} has left due or assigned
 * rewards of users who owe, these go on in the next transaction, and this one applies only what moves no free money. It
 * finds the rewards of other users behind up to {@link maxSkipped} of theirs.
 */
export const applyAllUsers = Effect.fnUntraced(function*(book: Book, limit: number) {
  book.isWorkOutdated = true
  if (book.hasPayouts) yield* continueFirstPayout(book, limit)
  const sql = yield* SqlClient.SqlClient
  const { integratorId, now } = book
  const isClaiming = sql`EXISTS (SELECT FROM payouts p
    WHERE p.integrator_id = r.integrator_id AND p.user_id = r.user_id AND p.asset = r.asset)`
  const due = yield* sql<RewardRow>`
    SELECT * FROM (
      SELECT * FROM rewards WHERE integrator_id = ${integratorId} AND state = 'Pending'
        AND claimable_at <= ${value.timestamptz(now)}
      ORDER BY claimable_at, creation LIMIT ${value.int4(book.hasPayouts || book.isBehind ? limit + maxSkipped : limit)}
    ) r WHERE NOT ${isClaiming} AND ${isOutsideOrder(book)}
    ORDER BY claimable_at, creation LIMIT ${value.int4(limit)}`
  yield* readMissingUsers(book, due)
  for (const row of due) book.addReward(row)
  book.budget = limit
  yield* matureInOrder(book, due)
  for (const asset of assets) yield* reserveAllUsers(book, asset, limit)
})

/** A condition that a reward `r` need not wait for those of users who owe: none is left, or it frees no money. */
const isOutsideOrder = ({ isBehind }: Book) =>
  literal(
    isBehind
      ? `(SELECT b.owed FROM user_balances b
        WHERE b.integrator_id = r.integrator_id AND b.user_id = r.user_id AND b.asset = r.asset LIMIT 1) = 0`
      : "true"
  )

/** Continues one unfinished claim, which moves no free money and delays its own user's rewards only. */
const continueFirstPayout = Effect.fnUntraced(function*(book: Book, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const [payout] = yield* sql<Payout>`SELECT user_id, asset, reference, amount FROM payouts
    WHERE integrator_id = ${book.integratorId} ORDER BY user_id, asset LIMIT 1`
  if (payout === undefined) return
  const { isBehind } = book
  book.budget = limit
  yield* readMissingUsers(book, [payout])
  yield* continuePayout(book, book.addPayout(payout))
  book.isBehind = isBehind
})

const reserveAllUsers = Effect.fnUntraced(function*(book: Book, asset: Asset, limit: number) {
  const { assigned, assignedTo } = book.vault[asset]
  if (assigned === 0n) return
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<RewardRow>`
    SELECT * FROM (
      SELECT * FROM rewards WHERE integrator_id = ${book.integratorId} AND asset = ${asset}
        AND state = 'AwaitingFunding' AND creation <= ${value.int8(assignedTo)}
      ORDER BY creation LIMIT ${value.int4(book.isBehind ? limit + maxSkipped : limit)}
    ) r WHERE ${isOutsideOrder(book)} ORDER BY creation LIMIT ${value.int4(limit)}`
  yield* readMissingUsers(book, rows)
  for (const row of rows) {
    const present = book.addReward(row)
    if (isAssigned(book, present)) reserve(book, present, "assigned")
  }
})
