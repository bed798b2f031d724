import type { Asset } from "@card-rewards/domain/Money"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { blockOf, lastOfBlock } from "./Accounts.ts"
import type { Book } from "./Book.ts"
import { presentReward } from "./RewardRow.ts"

/** Blocks of one page of sums. */
const sumsPage = 250

/**
 * Adds up the next waiting rewards that free money covers, in order of creation: blocks by their sums, and the rewards
 * of the first and the last block one by one. Returns the sum, and the creation of the last one. The next assignment of
 * the same transaction reads on where this one ends.
 */
export const addCovered = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const { assignedTo, free } = book.vault[asset]
  const scan = book.scans[asset]
  const changes = book.waitingChanges[asset]
  let covered = { amount: 0n, upTo: assignedTo }
  const add = (amount: bigint, upTo: bigint): boolean => {
    const isCovered = covered.amount + amount <= free
    if (isCovered) covered = { amount: covered.amount + amount, upTo }
    return isCovered
  }
  if (scan.readTo === undefined) {
    scan.readTo = blockOf(assignedTo + 1n)
    yield* readBlock(book, asset, scan.readTo, assignedTo)
  }
  while (true) {
    for (let next = scan.rewards[0]; next !== undefined; next = scan.rewards[0]) {
      const amount = next.amount + changes.ofReward(next.creation)
      if (amount > 0n && !add(amount, next.creation)) return covered
      scan.rewards.shift()
    }
    const sum = yield* nextSum(book, asset)
    if (sum === undefined) break
    const last = lastOfBlock(sum.block)
    // the last block is not full: rewards created later are not assigned
    const upTo = last < book.creations ? last : book.creations
    if (!add(sum.amount + changes.ofBlock(sum.block), upTo)) yield* readBlock(book, asset, sum.block, covered.upTo)
  }
  const { created } = book.waiting(asset)
  for (let key = created[0]; key !== undefined; key = created[0]) {
    const { amount, creation, state } = presentReward(book.rewards, key)
    if (state === "AwaitingFunding" && creation > covered.upTo && !add(amount, creation)) return covered
    created.shift()
  }
  return covered
})

/** The stored sum of the next block; undefined after the last one. */
const nextSum = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const scan = book.scans[asset]
  if (scan.sums.length === 0 && !scan.areAllRead && scan.readTo !== undefined) {
    const sql = yield* SqlClient.SqlClient
    scan.sums = Array.from(yield* sql<{ block: bigint; amount: bigint }>`
      SELECT block, amount FROM waiting_sums
      WHERE integrator_id = ${book.integratorId} AND asset = ${asset} AND block > ${value.int8(scan.readTo)}
      ORDER BY block LIMIT ${value.int4(sumsPage)}`)
    scan.areAllRead = scan.sums.length < sumsPage
    scan.readTo = scan.sums.at(-1)?.block ?? scan.readTo
  }
  return scan.sums.shift()
})

/** Reads the stored waiting rewards of a block after a creation. */
const readBlock = Effect.fnUntraced(function*(book: Book, asset: Asset, block: bigint, after: bigint) {
  const sql = yield* SqlClient.SqlClient
  book.scans[asset].rewards = Array.from(yield* sql<{ creation: bigint; amount: bigint }>`
    SELECT creation, amount FROM rewards
    WHERE integrator_id = ${book.integratorId} AND asset = ${asset} AND state = 'AwaitingFunding'
      AND creation > ${value.int8(after)} AND creation <= ${value.int8(lastOfBlock(block))}
    ORDER BY creation`)
})
