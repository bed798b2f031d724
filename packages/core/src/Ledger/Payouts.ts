import { pay, printRewardId, unpaid } from "@card-rewards/domain/Reward"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import { beforeAll, byDuePosition, type DuePosition, type Payout } from "./Accounts.ts"
import type { Book } from "./Book.ts"
import type { RewardRow } from "./RewardRow.ts"

/** The maximum number of rewards that a claim pays in its own transaction; later transactions pay the others. */
export const PaidAtOnce = Context.Reference<number>("@card-rewards/core/Ledger/PaidAtOnce", {
  defaultValue: () => 1_000
})

/**
 * Pays a claim that the user's claimable balance covers, oldest rewards first. Where it takes more than {@link
 * PaidAtOnce} rewards, the balance, the vault and one journal entry show the whole amount at once, and the other
 * rewards are left as a payout.
 */
export const payClaim = Effect.fnUntraced(function*(book: Book, claim: Payout) {
  const rows = yield* readClaimable(book, claim, yield* PaidAtOnce)
  const { left, parts } = divide(rows, claim.amount)
  payParts(book, parts, claim.reference)
  for (const { amount, row } of parts) {
    book.operation?.rewards?.push({ id: printRewardId(row), amount: amount.toString() })
  }
  const rest = left === 0n ? 0 : yield* countCovering(book, claim, rows.at(-1) ?? beforeAll, left)
  if (book.operation !== undefined) book.operation.rewardCount = parts.length + rest
  if (left === 0n) return
  const { asset, reference, userId } = claim
  book.move({ from: "claimable", to: "paid", amount: left, asset, userId, reward: undefined, reference })
  book.changePayout({ ...claim, amount: left })
})

/** Continues a payout as far as the book's budget allows. A book that cannot finish it is behind afterwards. */
export const continuePayout = Effect.fnUntraced(function*(book: Book, payout: Payout) {
  if (payout.amount === 0n) return
  const { asset, reference, userId } = payout
  const rows = book.budget === 0 ? [] : yield* readClaimable(book, payout, book.budget)
  const { left, parts } = divide(rows, payout.amount)
  if (left > 0n && rows.length < book.budget) {
    return yield* Effect.die(new Error("claimable rewards are less than an unfinished claim"))
  }
  book.isBehind ||= left > 0n
  if (parts.length === 0) return
  // the claim's own entry paid this amount without naming rewards; the entries of the rewards replace that part of it
  const amount = payout.amount - left
  book.move({ from: "paid", to: "claimable", amount, asset, userId, reward: undefined, reference })
  payParts(book, parts, reference)
  book.changePayout({ ...payout, amount: left })
  book.budget -= parts.length
})

interface Part {
  readonly row: RewardRow
  readonly amount: bigint
}

/** Divides an amount over rewards in order; `left` is what they do not take. */
const divide = (rows: ReadonlyArray<RewardRow>, amount: bigint) => {
  const parts: Array<Part> = []
  let left = amount
  for (const row of rows) {
    if (left === 0n) break
    const due = unpaid(row)
    const part = due < left ? due : left
    parts.push({ row, amount: part })
    left -= part
  }
  return { parts, left }
}

const payParts = (book: Book, parts: ReadonlyArray<Part>, reference: string): void => {
  for (const { amount, row } of parts) book.change(row, pay(row, amount), reference)
}

/** A user's first claimable rewards, oldest first, with this transaction's changes: it may have paid stored ones. */
const readClaimable = Effect.fnUntraced(function*(book: Book, payout: Payout, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const { asset, userId } = payout
  const changed = book.changedRows(asset).filter((row) => row.userId === userId)
  const rows = yield* sql<RewardRow>`
    SELECT * FROM rewards WHERE integrator_id = ${book.integratorId} AND user_id = ${userId} AND asset = ${asset}
      AND state = 'Claimable' ORDER BY claimable_at, creation LIMIT ${value.int4(limit + changed.length)}`
  const present = new Set([...rows.map((row) => book.addReward(row)), ...changed])
  return [...present].filter(({ state }) => state === "Claimable").sort(byDuePosition).slice(0, limit)
})

/** The user's rewards that became claimable in this transaction; their stored rows are still Pending. */
const maturedNow = (book: Book, { asset, userId }: Payout): ReadonlyArray<RewardRow> =>
  book.changedRows(asset).filter((row) => row.userId === userId && row.state === "Claimable" && row.paid === 0n)

/** Rewards that one statement of {@link countCovering} reads: a user may have any number. */
const countedAtOnce = 10_000

/** Counts the claimable rewards after a position that it takes to cover an amount, in order. */
const countCovering = Effect.fnUntraced(function*(book: Book, claim: Payout, after: DuePosition, amount: bigint) {
  const matured = maturedNow(book, claim)
  let counted = 0
  let [last, left] = [after, amount]
  while (left > 0n) {
    const next = yield* cover(book.integratorId, claim, { matured, after: last, amount: left })
    if (next === undefined) return yield* Effect.die(new Error("claimable rewards are less than a claim"))
    counted += next.rewards
    left -= next.covered
    last = next
  }
  return counted
})

/**
 * The last of {@link countedAtOnce} claimable rewards after a position, or an earlier one with which they cover the
 * amount: how many they are up to it, and how much they cover.
 */
const cover = Effect.fnUntraced(function*(
  integratorId: string,
  { asset, userId }: Payout,
  options: { readonly matured: ReadonlyArray<RewardRow>; readonly after: DuePosition; readonly amount: bigint }
) {
  const sql = yield* SqlClient.SqlClient
  const { after, amount, matured } = options
  const isAfter = sql`(claimable_at, creation) >
    (${value.timestamptz(after.claimableAt)}, ${value.int8(after.creation)})`
  const first = sql`ORDER BY claimable_at, creation LIMIT ${value.int4(countedAtOnce)}`
  const [row] = yield* sql<DuePosition & { rewards: number; covered: bigint }>`
    SELECT claimable_at, creation, rewards::int4, covered FROM (
      SELECT *, row_number() OVER so_far AS rewards, sum(unpaid) OVER so_far AS covered FROM (
        (SELECT claimable_at, creation, amount - paid - recovered + clawed_back AS unpaid FROM rewards
          WHERE integrator_id = ${integratorId} AND user_id = ${userId} AND asset = ${asset} AND state = 'Claimable'
            AND ${isAfter} ${first})
        UNION ALL
        SELECT * FROM unnest(${columns.timestamptz(matured.map((row) => row.claimableAt))},
          ${columns.int8(matured.map((row) => row.creation))}, ${columns.numeric(matured.map(unpaid))}
        ) matured(claimable_at, creation, unpaid) WHERE ${isAfter}
        ${first}
      ) r WINDOW so_far AS (ORDER BY claimable_at, creation ROWS UNBOUNDED PRECEDING)
    ) r WHERE covered - unpaid < ${value.numeric(amount)} ORDER BY rewards DESC LIMIT 1`
  return row
})
