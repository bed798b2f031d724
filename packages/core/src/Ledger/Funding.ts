import type { Asset } from "@card-rewards/domain/Money"
import { fund, mature } from "@card-rewards/domain/Reward"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import type { Book } from "./Book.ts"
import { addCovered } from "./Covered.ts"
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

/**
 * Funds waiting rewards with the free money, first in, first out, up to the first that it does not cover. A reward past
 * its holding period becomes claimable before the next one is funded. After {@link ServedAtOnce} rewards the money for
 * the others is assigned, to be reserved later; `assignedAt` is the time of that, unless the book is behind. Returns
 * whether money was assigned.
 */
export const serveWaiting = Effect.fnUntraced(function*(
  book: Book,
  asset: Asset,
  assignedAt: number | null = book.now
) {
  const servedAtOnce = yield* ServedAtOnce
  const vault = book.vault[asset]
  while (true) {
    if (vault.assigned > 0n || book.served >= servedAtOnce) return yield* assign(book, asset, assignedAt)
    const head = yield* firstWaiting(book, asset)
    if (head === undefined || vault.free < head.amount) return false
    const isDue = head.claimableAt <= book.now
    const isClaiming = book.isClaiming(head.userId, asset)
    // it matures after the claim, and what it recovers must be free before the next reward is funded
    if (isDue && isClaiming && book.user(head.userId, asset).owed > 0n) return yield* assign(book, asset, assignedAt)
    book.served++
    // none up to this one is assigned
    book.reservedTo[asset] = head.creation
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
const assign = Effect.fnUntraced(function*(book: Book, asset: Asset, assignedAt: number | null) {
  const vault = book.vault[asset]
  const { amount, upTo } = yield* addCovered(book, asset)
  if (amount === 0n) return false
  const reference = book.operation?.reference
  book.move({ from: "free", to: "assigned", amount, asset, userId: undefined, reward: undefined, reference })
  vault.assignedTo = upTo
  if (!book.isBehind) vault.assignedAt = assignedAt
  return true
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
