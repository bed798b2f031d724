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
 * The maximum number of waiting rewards that one transaction reserves one by one. Free money that covers more of them
 * is assigned as one sum and reserved by later transactions (docs/decisions/0007-funding-in-bounded-transactions.md).
 */
export const ServedAtOnce = Context.Reference<number>("@card-rewards/core/Ledger/ServedAtOnce", {
  defaultValue: () => 250
})

/** Rows of one page of waiting rewards. */
const waitingPage = 200

/** Waiting rewards that an assignment adds up one by one before it adds the sums of whole blocks. */
const maxAddedSingly = 200

/** Blocks of one page of {@link readSums}. */
const sumsPage = 1_000

/**
 * Funds waiting rewards with the free money, first in, first out, up to the first that it does not cover. A reward past
 * its holding period becomes claimable before the next one is funded. After {@link ServedAtOnce} rewards the money for
 * the others is assigned, to be reserved later. Returns whether money was assigned.
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
    // it matures after the claim, and what it recovers must be free before the next reward is funded
    if (isDue && isClaiming && book.user(head.userId, asset).owed > 0n) return yield* assign(book, asset)
    book.served++
    const funded = reserve(book, head, "free")
    if (isDue && !isClaiming) matureReward(book, funded)
  }
})

/** Reserves a waiting reward, out of free or assigned money. */
export const reserve = (book: Book, row: RewardRow, from: "free" | "assigned"): RewardRow =>
  book.change(row, fund(row, from))

/** Ends the holding period of a reward. The part of it that covers what its user owes returns to free money. */
export const matureReward = (book: Book, row: RewardRow): RewardRow =>
  book.change(row, mature(row, book.user(row.userId, row.asset).owed))

/** Whether money is assigned to a waiting reward. */
export const isAssigned = (book: Book, row: RewardRow): boolean =>
  row.state === "AwaitingFunding" && row.creation <= book.vault[row.asset].assignedTo

/** Assigns free money to the waiting rewards that it covers, in one sum; returns whether there were any. */
const assign = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const vault = book.vault[asset]
  const first = yield* addSingly(book, asset)
  const { amount, upTo } = first.isAll ? first : yield* addBlocks(book, asset, first)
  if (amount === 0n) return false
  const reference = book.operation?.reference
  book.move({ from: "free", to: "assigned", amount, asset, userId: undefined, reward: undefined, reference })
  vault.assignedTo = upTo
  // an assignment made while earlier ones are being reserved counts as made at their time
  if (!book.isReserving && !book.isBehind) vault.assignedAt = book.now
  return true
})

/** The next waiting rewards that free money covers: their sum, and the creation of the last one. */
interface Covered {
  readonly amount: bigint
  readonly upTo: bigint
}

/** Adds up the first {@link maxAddedSingly} covered rewards: what a recovery frees seldom covers more. */
const addSingly = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const { assignedTo, free } = book.vault[asset]
  let covered: Covered = { amount: 0n, upTo: assignedTo }
  for (let rewards = 0; rewards < maxAddedSingly; rewards++) {
    const head = yield* firstWaiting(book, asset)
    if (head === undefined || covered.amount + head.amount > free) return { ...covered, isAll: true }
    covered = { amount: covered.amount + head.amount, upTo: head.creation }
    book.waiting(asset).shift()
  }
  return { ...covered, isAll: false }
})

/** Adds the rewards that free money still covers, a block of creations at a time. */
const addBlocks = Effect.fnUntraced(function*(book: Book, asset: Asset, first: Covered) {
  const { free } = book.vault[asset]
  let covered = first
  /** Adds a block's rewards one by one; returns whether all of them are covered. */
  const addRows = Effect.fnUntraced(function*(block: bigint) {
    for (const { amount, creation } of yield* readBlock(book, asset, block, covered.upTo)) {
      if (covered.amount + amount > free) return false
      covered = { amount: covered.amount + amount, upTo: creation }
    }
    return true
  })
  const firstBlock = blockOf(first.upTo + 1n)
  if (!(yield* addRows(firstBlock))) return covered
  for (let after = firstBlock;;) {
    const sums = yield* readSums(book, asset, after)
    for (const { amount, block } of sums) {
      if (covered.amount + amount > free) {
        yield* addRows(block)
        return covered
      }
      // the last block is not full: rewards created later are not assigned
      const last = lastOfBlock(block)
      covered = { amount: covered.amount + amount, upTo: last < book.creations ? last : book.creations }
    }
    const last = sums.at(-1)
    if (last === undefined || sums.length < sumsPage) return covered
    after = last.block
  }
})

/** The stored sums of the next blocks of waiting rewards, plus this transaction's changes. */
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

/** The waiting rewards of a block after a creation, with this transaction's changes, in order of creation. */
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

/** The oldest waiting reward of an asset that no money is assigned to, with this transaction's changes. */
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
