import type { Asset } from "@card-rewards/domain/Money"
import { fund, mature } from "@card-rewards/domain/Reward"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import type { Book, RewardRow } from "./Book.ts"
import { byCreation, readMissingUsers } from "./Load.ts"

/**
 * Waiting rewards that one transaction reserves one by one. What free money serves beyond them is assigned in one sum
 * and reserved later (docs/decisions/0007-funding-in-bounded-transactions.md).
 */
export const ServedAtOnce = Context.Reference<number>("@card-rewards/core/Ledger/ServedAtOnce", {
  defaultValue: () => 250
})

/** Waiting rewards are read in pieces of this many. */
const waitingPage = 200

/** Waiting rewards whose amounts one statement adds up at most. */
const longestSum = 100_000

/**
 * Gives free money to the waiting rewards, first in, first out, up to the first that does not fit. One that is past
 * its holding period becomes claimable before the next is funded.
 */
export const serveWaiting = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const servedAtOnce = yield* ServedAtOnce
  const vault = book.vault[asset]
  while (true) {
    if (vault.assigned > 0n || book.served >= servedAtOnce) {
      if (yield* assign(book, asset)) continue
      return
    }
    const head = yield* firstWaiting(book, asset)
    if (head === undefined || vault.free < head.amount) return
    book.served++
    reserve(book, head, "free")
  }
})

/** Reserves a waiting reward, out of free or assigned money; past its holding period it becomes claimable at once. */
export const reserve = (book: Book, row: RewardRow, from: "free" | "assigned"): RewardRow => {
  const funded = book.change(row, fund(row, from))
  return funded.claimableAt <= book.now ? matureReward(book, funded) : funded
}

/** The holding period of a reward is over. What its user owes goes back to free money. */
export const matureReward = (book: Book, row: RewardRow): RewardRow =>
  book.change(row, mature(row, book.user(row.userId, row.asset).owed))

/** Whether a waiting reward's money is assigned already. */
export const isAssigned = (book: Book, row: RewardRow): boolean =>
  row.state === "AwaitingFunding" && row.creation <= book.vault[row.asset].assignedTo

/** Reserves the assigned rewards among these, in order of creation; free money that comes back is passed on. */
export const reserveAssigned = Effect.fnUntraced(function*(book: Book, rows: ReadonlyArray<RewardRow>) {
  for (const row of rows.map((row) => book.meet(row)).toSorted(byCreation)) {
    if (!isAssigned(book, row)) continue
    const free = book.vault[row.asset].free
    reserve(book, row, "assigned")
    if (book.vault[row.asset].free > free) yield* serveWaiting(book, row.asset)
  }
})

/**
 * Assigns free money to the waiting rewards that it serves, in one sum. Answers whether recoveries made more of it
 * free.
 */
const assign = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const vault = book.vault[asset]
  const { amount, upTo } = yield* served(book, asset)
  if (amount === 0n) return false
  const reference = book.operation?.reference
  book.move({ from: "free", to: "assigned", amount, asset, userId: undefined, reward: undefined, reference })
  vault.assignedTo = upTo
  return yield* recover(book, asset)
})

/** How much the next waiting rewards that fit into free money come to, and the last of them. */
const served = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const sql = yield* SqlClient.SqlClient
  const { assignedTo, free } = book.vault[asset]
  const waits = (row: RewardRow) => row.state === "AwaitingFunding" && row.creation > assignedTo
  const changed = book.changedRows(asset)
  let upTo = assignedTo
  let amount = 0n
  let size = 1
  let growing = true
  while (true) {
    const [page] = yield* sql<{ rows: number; last: bigint | null; amount: bigint | null }>`
      SELECT count(*)::int4 AS rows, max(r.creation) AS last, sum(coalesce(t.amount, r.amount)) AS amount
      FROM (
        SELECT creation, amount FROM rewards WHERE integrator_id = ${book.integratorId} AND asset = ${asset}
          AND state = 'AwaitingFunding' AND creation > ${value.int8(upTo)} ORDER BY creation LIMIT ${value.int4(size)}
      ) r LEFT JOIN unnest(${columns.int8(changed.map((row) => row.creation))},
        ${columns.numeric(changed.map((row) => waits(row) ? row.amount : 0n))})
        AS t(creation, amount) USING (creation)`
    const more = page?.amount ?? 0n
    if (amount + more > free) {
      if (size === 1) return { amount, upTo }
      growing = false
      size /= 10
      continue
    }
    amount += more
    upTo = page?.last ?? upTo
    if ((page?.rows ?? 0) < size) break
    if (growing && size < longestSum) size *= 10
  }
  // all that is stored fits; then come the rewards of this transaction
  for (const row of book.createdRows(asset)) {
    if (!waits(row)) continue
    if (amount + row.amount > free) break
    amount += row.amount
    upTo = row.creation
  }
  return { amount, upTo }
})

/**
 * Of users who owe, reserves the assigned rewards that are due, until nothing is owed: what they recover is free money,
 * which nobody may have to wait for (decisions, section 6).
 */
export const recoverAssigned = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  if (yield* recover(book, asset)) yield* serveWaiting(book, asset)
})

/** Answers whether that made money free. */
const recover = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const { assignedTo, free } = book.vault[asset]
  const sql = yield* SqlClient.SqlClient
  const reserveOwing = (row: RewardRow): void => {
    const owes = book.user(row.userId, row.asset).owed > 0n
    if (owes && row.claimableAt <= book.now && isAssigned(book, row)) reserve(book, row, "assigned")
  }
  for (let after: bigint | undefined = 0n; after !== undefined;) {
    const owing = book.userIds().filter((userId) => book.user(userId, asset).owed > 0n)
    if (owing.length === 0) break
    const rows: ReadonlyArray<RewardRow> = yield* sql<RewardRow>`
      SELECT r.* FROM unnest(${columns.text(owing)}) AS t(user_id) JOIN rewards r
        ON r.integrator_id = ${book.integratorId} AND r.user_id = t.user_id AND r.asset = ${asset}
        AND r.state = 'AwaitingFunding' AND r.creation > ${value.int8(after)} AND r.creation <= ${value.int8(assignedTo)}
        AND r.claimable_at <= ${value.timestamptz(book.now)}
      ORDER BY r.creation LIMIT ${value.int4(waitingPage)}`
    for (const row of rows) reserveOwing(book.meet(row))
    after = rows.length < waitingPage ? undefined : rows.at(-1)?.creation
  }
  for (const row of book.createdRows(asset)) reserveOwing(row)
  return book.vault[asset].free > free
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
    queue.read(rows.map((row) => book.meet(row)), waitingPage)
    yield* readMissingUsers(new Map([[book.integratorId, book]]), rows)
  }
})
