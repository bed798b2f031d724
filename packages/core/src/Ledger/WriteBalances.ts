import { assets } from "@card-rewards/domain/Money"
import { dayOf } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { atVersion, joinByKey, perRow } from "../Database/PlannerHints.ts"
import { type Change, together } from "../Database/Together.ts"
import {
  bool,
  columnList,
  int8,
  nullable,
  numeric,
  type RowVersion,
  rowVersion,
  timestamptz,
  type Written
} from "../Database/Table.ts"
import * as Tables from "../Tables.ts"
import type { Book } from "./Book.ts"

const changedAccounts = Tables.userBalances.pick("awaiting_funding", "pending", "claimable", "paid", "owed")
const changedFirsts = Tables.userBalances.pick("due_at", "due_creation", "first_waiting")
const changedBalances = columnList({ ...rowVersion, ...changedAccounts.columns, ...changedFirsts.columns })
const outdatedBalances = columnList({
  ...Tables.userBalances.pick("integrator_id", "user_id", "asset").columns,
  ...changedAccounts.columns,
  ctid: nullable(rowVersion.ctid),
  xmin: nullable(rowVersion.xmin)
})

/**
 * The changed accounts of users: those that are stored, and those that were absent when they were read. The vault's
 * lock guards both, so that the latter are inserted without a conflict.
 */
const changedUsers = (books: ReadonlyArray<Book>, areOutdated: boolean) => {
  const added: Array<Written<typeof Tables.userBalances>> = []
  const stored: Array<Written<typeof Tables.userBalances> & RowVersion> = []
  for (const { accounts, integratorId } of books) {
    for (const one of accounts) {
      if (!one.isChanged || one.areFirstsOutdated !== areOutdated) continue
      const [dueAt, dueCreation] = [one.firstPending?.claimableAt, one.firstPending?.creation]
      if (one.stored === undefined) added.push({ ...one, integratorId, dueAt, dueCreation })
      else stored.push({ ...one, integratorId, dueAt, dueCreation, ctid: one.stored.ctid, xmin: one.stored.xmin })
    }
  }
  return { added, stored }
}

/** Changes stored accounts to the values of `values`, which also names their versions. */
const update = (sql: SqlClient.SqlClient, values: Statement.Fragment, rows: number): Change => ({
  table: "user_balances",
  rows,
  change: sql`UPDATE user_balances b SET ${changedAccounts.setFrom("t")}, ${changedFirsts.setFrom("t")}
    FROM ${values} WHERE ${atVersion("b")}`
})

/** Changes of the accounts of users, except for those that {@link writeOutdatedBalances} writes. */
export const userBalances = (sql: SqlClient.SqlClient, books: ReadonlyArray<Book>): ReadonlyArray<Change> => {
  const { added, stored } = changedUsers(books, false)
  return [Tables.userBalances.insert(added), update(sql, changedBalances.unnest(stored), stored.length)]
}

/**
 * Writes the changed accounts of users whose first pending or waiting reward left that state. Looks the next one up in
 * an index of that user's rewards, which have been written before.
 */
export const writeOutdatedBalances = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const { added, stored } = changedUsers(books, true)
  if (added.length + stored.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const withFirsts = (rows: ReadonlyArray<Written<typeof outdatedBalances>>) =>
    sql`(
      SELECT t.*, p.claimable_at AS due_at, p.creation AS due_creation, w.creation AS first_waiting
      FROM ${outdatedBalances.unnest(rows)}
      LEFT JOIN LATERAL (
        SELECT r.claimable_at, r.creation FROM rewards r WHERE r.integrator_id = t.integrator_id
          AND r.user_id = t.user_id AND r.asset = t.asset AND r.state = 'Pending'
        ORDER BY r.claimable_at, r.creation LIMIT 1
      ) p ON true
      LEFT JOIN LATERAL (
        SELECT r.creation FROM rewards r WHERE r.integrator_id = t.integrator_id
          AND r.user_id = t.user_id AND r.asset = t.asset AND r.state = 'AwaitingFunding'
        ORDER BY r.creation LIMIT 1
      ) w ON true
    ) AS t`
  const { names, of } = Tables.userBalances
  yield* together([
    sql`INSERT INTO user_balances (${names}) SELECT ${of("t")} FROM ${withFirsts(added)}`,
    update(sql, withFirsts(stored), stored.length)
  ])
})

const sumKey = Tables.waitingSums.pick("integrator_id", "asset", "block")
const sumChanges = columnList({ ...sumKey.columns, change: numeric() })

/** Adds the changes of waiting rewards to the sums of their blocks. A block without waiting rewards has no row. */
export const writeWaitingSums = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  const rows = books.flatMap((book) =>
    assets.flatMap((asset) =>
      [...book.waitingChanges[asset].blocks].filter(([, change]) => change !== 0n).map(([block, change]) =>
        ({ integratorId: book.integratorId, asset, block, change }))))
  if (rows.length === 0) return
  const left = yield* sql<{ amount: bigint }>`
    INSERT INTO waiting_sums AS s (${Tables.waitingSums.names})
    SELECT t.integrator_id, t.asset, t.block, t.change + coalesce(s.amount, 0)
    FROM ${sumChanges.unnest(rows)}
    LEFT JOIN LATERAL (SELECT amount FROM waiting_sums s WHERE ${sumKey.match("s", "t")} ${perRow}) s ON true
    ON CONFLICT (${sumKey.names}) DO UPDATE SET amount = excluded.amount RETURNING s.amount`
  if (left.every(({ amount }) => amount > 0n)) return
  yield* sql`DELETE FROM waiting_sums s USING ${sumKey.unnest(rows)} WHERE ${sumKey.match("s", "t")} AND s.amount = 0`
})

/** Writes unfinished claims, of which there are few at any time. */
export const writePayouts = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  const sql = yield* SqlClient.SqlClient
  for (const { changedPayouts, integratorId, payouts } of books) {
    for (const accounts of changedPayouts) {
      const payout = payouts.get(accounts)
      if (payout === undefined) continue
      const { amount, asset, reference, userId } = payout
      yield* amount === 0n
        ? sql`DELETE FROM payouts WHERE integrator_id = ${integratorId} AND user_id = ${userId} AND asset = ${asset}`
        : sql`${Tables.payouts.insert([{ integratorId, userId, asset, reference, amount }])}
          ON CONFLICT (integrator_id, user_id, asset) DO UPDATE SET amount = excluded.amount`
    }
  }
})

const vaultTimes = columnList({
  ...Tables.vaults.pick("integrator_id").columns,
  assigned: bool(),
  now: timestamptz(),
  ahead: int8()
})

/**
 * Writes when background work on the vaults is next due, in real time: now where money is assigned or a claim is
 * unfinished, else with the first pending reward, but not before now. A vault with much work so queues behind vaults
 * whose work became due meanwhile.
 */
export const writeWorkAt = Effect.fnUntraced(function*(books: ReadonlyArray<Book>) {
  if (books.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE vaults v SET work_at = CASE
      WHEN t.assigned OR EXISTS (SELECT 1 FROM payouts p WHERE p.integrator_id = t.integrator_id LIMIT 1) THEN t.now
      ELSE (
        SELECT greatest(r.claimable_at, t.now + t.ahead * interval '1 ms') - t.ahead * interval '1 ms' FROM rewards r
        WHERE r.integrator_id = t.integrator_id AND r.state = 'Pending' ORDER BY r.claimable_at, r.creation LIMIT 1
      ) END
    FROM ${vaultTimes.unnest(books.map((book) => ({
      integratorId: book.integratorId,
      assigned: assets.some((asset) => book.vault[asset].assigned > 0n),
      now: book.now - book.offsetMillis,
      ahead: BigInt(book.offsetMillis)
    })))} ${joinByKey("vaults", "v", Tables.vaults.pick("integrator_id"))}`
})

const changedVaultAccounts = columnList({ ...rowVersion, ...Tables.vaultAccounts.columns })

/** Changes of the vaults' balances in the assets that were moved, and of those of days that ended before. */
export const vaultBalances = (
  sql: SqlClient.SqlClient,
  books: ReadonlyArray<Book>
): ReadonlyArray<Change> => {
  const rows = books.flatMap((book) =>
    [...book.changedAssets].map((asset) => ({ ...book.vault[asset], day: dayOf(book.recordedAt) })))
  const ends = books.flatMap((book) => book.dayEnds.map((end) => ({ ...end, integratorId: book.integratorId })))
  return [
    ...(ends.length === 0 ? [] : [Tables.vaultDays.insert(ends)]),
    {
      table: "vault_balances",
      rows: rows.length,
      change: sql`UPDATE vault_balances b SET ${Tables.vaultAccounts.setFrom("t")} FROM ${
        changedVaultAccounts.unnest(rows)
      } WHERE ${atVersion("b")}`
    }
  ]
}
