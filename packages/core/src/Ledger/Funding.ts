import type { Asset } from "@card-rewards/domain/Money"
import { fund, mature } from "@card-rewards/domain/Reward"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { blockOf, byCreation, lastOfBlock } from "./Accounts.ts"
import type { Book } from "./Book.ts"
import { readMissingUsers } from "./Load.ts"
import type { RewardRow } from "./RewardRow.ts"

/**
 * Waiting rewards that one transaction reserves one by one. What free money serves beyond them is assigned in one sum
 * and reserved later (docs/decisions/0007-funding-in-bounded-transactions.md).
 */
export const ServedAtOnce = Context.Reference<number>("@card-rewards/core/Ledger/ServedAtOnce", {
  defaultValue: () => 250
})

/** Waiting rewards are read in pages of this many. */
const waitingPage = 200

/** Waiting rewards that are assigned to one by one, before sums of whole blocks are. */
const servedFew = 200

/** Sums of waiting rewards are read in pages of this many blocks. */
const sumsPage = 1_000

/**
 * Gives free money to the waiting rewards, first in, first out, up to the first that does not fit. One that is past
 * its holding period becomes claimable before the next is funded. What is assigned beyond {@link ServedAtOnce} rewards
 * is left to be reserved; returns whether anything was assigned.
 */
export const serveWaiting = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const servedAtOnce = yield* ServedAtOnce
  const vault = book.vault[asset]
  while (true) {
    if (vault.assigned > 0n || book.served >= servedAtOnce) return yield* assign(book, asset)
    const head = yield* firstWaiting(book, asset)
    if (head === undefined || vault.free < head.amount) return false
    const isDue = head.claimableAt <= book.now
    const isClaiming = book.isClaiming(head.userId, asset)
    // what it recovers comes before the next one is funded, and after the claim
    if (isDue && isClaiming && book.user(head.userId, asset).owed > 0n) return yield* assign(book, asset)
    book.served++
    const funded = reserve(book, head, "free")
    if (isDue && !isClaiming) matureReward(book, funded)
  }
})

/** Reserves a waiting reward, out of free or assigned money. */
export const reserve = (book: Book, row: RewardRow, from: "free" | "assigned"): RewardRow =>
  book.change(row, fund(row, from))

/** The holding period of a reward is over. What its user owes goes back to free money. */
export const matureReward = (book: Book, row: RewardRow): RewardRow =>
  book.change(row, mature(row, book.user(row.userId, row.asset).owed))

/** Whether a waiting reward's money is assigned already. */
export const isAssigned = (book: Book, row: RewardRow): boolean =>
  row.state === "AwaitingFunding" && row.creation <= book.vault[row.asset].assignedTo

/** Assigns free money to the waiting rewards that it serves, in one sum; returns whether there were any. */
const assign = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const vault = book.vault[asset]
  const few = yield* findServedFew(book, asset)
  const { amount, upTo } = few.isAll ? few : yield* findServed(book, asset, few)
  if (amount === 0n) return false
  const reference = book.operation?.reference
  book.move({ from: "free", to: "assigned", amount, asset, userId: undefined, reward: undefined, reference })
  vault.assignedTo = upTo
  // while earlier assigned rewards of users who owe are still being reserved, these belong to the same moment
  if (!book.isReserving && !book.isBehind) vault.assignedAt = book.now
  return true
})

/** The next waiting rewards that fit into free money: what they come to, and up to which creation. */
interface Served {
  readonly amount: bigint
  readonly upTo: bigint
}

/** As {@link findServed}, of the first {@link servedFew}: what a recovery frees seldom serves more. */
const findServedFew = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const { assignedTo, free } = book.vault[asset]
  let served: Served = { amount: 0n, upTo: assignedTo }
  for (let rewards = 0; rewards < servedFew; rewards++) {
    const head = yield* firstWaiting(book, asset)
    if (head === undefined || served.amount + head.amount > free) return { ...served, isAll: true }
    served = { amount: served.amount + head.amount, upTo: head.creation }
    book.waiting(asset).shift()
  }
  return { ...served, isAll: false }
})

/** Adds the rewards that still fit, a block at a time: it takes a moment however many they are. */
const findServed = Effect.fnUntraced(function*(book: Book, asset: Asset, few: Served) {
  const { free } = book.vault[asset]
  let served = few
  /** Adds a block's rewards one by one; returns whether all of them fit. */
  const addRows = Effect.fnUntraced(function*(block: bigint) {
    for (const { amount, creation } of yield* readBlock(book, asset, block, served.upTo)) {
      if (served.amount + amount > free) return false
      served = { amount: served.amount + amount, upTo: creation }
    }
    return true
  })
  const first = blockOf(few.upTo + 1n)
  if (!(yield* addRows(first))) return served
  for (let after = first;;) {
    const sums = yield* readSums(book, asset, after)
    for (const { amount, block } of sums) {
      if (served.amount + amount > free) {
        yield* addRows(block)
        return served
      }
      // never beyond the rewards there are: those that come later are not assigned
      const last = lastOfBlock(block)
      served = { amount: served.amount + amount, upTo: last < book.creations ? last : book.creations }
    }
    const last = sums.at(-1)
    if (last === undefined || sums.length < sumsPage) return served
    after = last.block
  }
})

/** Sums of the next blocks of waiting rewards, with what this transaction has changed of them. */
const readSums = Effect.fnUntraced(function*(book: Book, asset: Asset, after: bigint) {
  const sql = yield* SqlClient.SqlClient
  const stored = yield* sql<{ block: bigint; amount: bigint }>`
    SELECT block, amount FROM waiting_sums
    WHERE integrator_id = ${book.integratorId} AND asset = ${asset} AND block > ${value.int8(after)}
    ORDER BY block LIMIT ${value.int4(sumsPage)}`
  const upTo = stored.length < sumsPage ? undefined : stored.at(-1)?.block
  const sums = new Map(stored.map(({ amount, block }) => [block, amount]))
  for (const [block, change] of book.waitingChanges[asset]) {
    if (block > after && (upTo === undefined || block <= upTo)) sums.set(block, (sums.get(block) ?? 0n) + change)
  }
  return [...sums].map(([block, amount]) => ({ block, amount })).toSorted((a, b) => a.block < b.block ? -1 : 1)
})

/** The waiting rewards of a block after a creation, as this transaction has them, in order of creation. */
const readBlock = Effect.fnUntraced(function*(book: Book, asset: Asset, block: bigint, after: bigint) {
  const sql = yield* SqlClient.SqlClient
  const last = lastOfBlock(block)
  const stored = yield* sql<{ creation: bigint; amount: bigint }>`
    SELECT creation, amount FROM rewards WHERE integrator_id = ${book.integratorId} AND asset = ${asset}
      AND state = 'AwaitingFunding' AND creation > ${value.int8(after)} AND creation <= ${value.int8(last)}
    ORDER BY creation`
  const present = new Map(stored.map(({ amount, creation }) => [creation, amount]))
  for (const { amount, creation, state } of [...book.changedRows(asset), ...book.createdRows(asset)]) {
    if (creation <= after || creation > last) continue
    if (state === "AwaitingFunding") present.set(creation, amount)
    else present.delete(creation)
  }
  return [...present].map(([creation, amount]) => ({ creation, amount })).toSorted(byCreation)
})

/** The longest waiting reward of an asset that no money is assigned to, as this transaction has it. */
const firstWaiting = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const queue = book.waiting(asset)
  while (true) {
    for (let key = queue.first(); key !== undefined; key = queue.first()) {
      const present = book.rewards.get(key)
      if (present?.state === "AwaitingFunding" && !isAssigned(book, present)) return present
      queue.shift()
    }
    if (queue.readAll) return undefined
    const sql = yield* SqlClient.SqlClient
    const after = queue.readUpTo > book.vault[asset].assignedTo ? queue.readUpTo : book.vault[asset].assignedTo
    const rows = yield* sql<RewardRow>`
      SELECT * FROM rewards WHERE integrator_id = ${book.integratorId} AND asset = ${asset}
        AND state = 'AwaitingFunding' AND creation > ${value.int8(after)}
      ORDER BY creation LIMIT ${value.int4(waitingPage)}`
    queue.read(rows.map((row) => book.addReward(row)), waitingPage)
    yield* readMissingUsers(book, rows)
  }
})
