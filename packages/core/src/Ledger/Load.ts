import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { Clock, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { columns, value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import {
  bool,
  columnList,
  int8,
  literal,
  nullable,
  numeric,
  type Row,
  rowVersion,
  text
} from "../Database/Table.ts"
import { isOwned, type Owned, requireOwned } from "../Slots.ts"
import * as Tables from "../Tables.ts"
import type { Payout, VaultAccounts } from "./Accounts.ts"
import { Book } from "./Book.ts"
import type { RewardRow } from "./RewardRow.ts"

/** The users of an integrator whose money a transaction is about to touch. */
export interface Touched {
  readonly integratorId: IntegratorId
  readonly userIds: ReadonlySet<string>
  /** Clearings whose rewards the transaction will reduce by refunds; none where absent. */
  readonly clearings?: ReadonlyArray<{ readonly userId: string; readonly externalTransactionId: string }>
}

/** A vault and its accounts in one asset, each with the version of its row. */
const openedVaults = columnList({
  ...Tables.vaults.columns,
  vault_ctid: rowVersion.ctid,
  vault_xmin: rowVersion.xmin,
  clock_offset_millis: int8(),
  event_salt: text(),
  has_payouts: bool(),
  ...Tables.vaultBalances.columns,
  ...rowVersion,
  low_funds: nullable(numeric())
})
type OpenedVaultRow = Row<typeof openedVaults>

/** A user's balance in one asset, with the version of its row. */
const userRows = columnList({ ...Tables.userBalances.columns, ...rowVersion })

const nulls = (list: { readonly columns: object }): Statement.Fragment =>
  literal(Object.keys(list.columns).fill("NULL").join(", "))
const [noUser, noVault] = [nulls(userRows), nulls(openedVaults)]
const userWidth = Object.keys(userRows.columns).length

const userKeys = Tables.userBalances.pick("integrator_id", "user_id")
const payoutKeys = Tables.payouts.pick("integrator_id", "user_id", "asset")
const transactions = Tables.rewards.pick("integrator_id", "user_id", "external_transaction_id")

/** Locks vaults in key order. Fails where the cell does not own a slot. */
export const lockVaults = (integratorIds: ReadonlyArray<IntegratorId>) =>
  lockWhere(isOwned("v.integrator_id"), integratorIds)

/**
 * Locks vaults in key order, in a transaction that has read that the cell owns the slots: a move waits for its end,
 * whatever the state of the slots is by now.
 */
export const lockOwnedVaults = (integratorIds: ReadonlyArray<IntegratorId>) =>
  lockWhere(literal("true"), integratorIds)

const lockWhere = Effect.fnUntraced(function*(
  condition: Statement.Fragment,
  integratorIds: ReadonlyArray<IntegratorId>
) {
  const sql = yield* SqlClient.SqlClient
  const locked = yield* sql<Owned>`
    SELECT ${condition} AS is_owned FROM vaults v
    WHERE v.integrator_id = ANY(${columns.text(integratorIds)}) ORDER BY v.integrator_id FOR UPDATE`
  yield* requireOwned(locked.length < new Set(integratorIds).size ? [] : locked)
})

/**
 * Opens the books of locked vaults at the integrators' current time, with the accounts of the touched users, and of
 * users who owe and have a due reward to recover from: of these, in the order of application, one more than `budget` of
 * each asset, by index scans. Users who owe and have no due reward are not read.
 */
export const openBooks = Effect.fnUntraced(function*(touched: ReadonlyArray<Touched>, budget: number) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const ids = touched.map(({ integratorId }) => integratorId)
  // up to a millisecond after the clock: far in the future such a product is some microseconds off
  const clock = sql`${value.timestamptz(real)} + (i.clock_offset_millis + 1) * interval '1 ms'`
  const values = yield* sql`
    WITH opened AS MATERIALIZED (
      SELECT ${Tables.vaults.of("v")}, v.ctid AS vault_ctid, v.xmin AS vault_xmin, i.clock_offset_millis, i.event_salt,
        EXISTS (SELECT 1 FROM payouts p WHERE p.integrator_id = t.integrator_id LIMIT 1) AS has_payouts,
        b.asset, ${Tables.vaultAccounts.of("b")}, b.ctid, b.xmin, b.low_funds,
        ${clock} AS now
      FROM unnest(${columns.text(ids)}) AS t(integrator_id)
      CROSS JOIN LATERAL (SELECT *, ctid, xmin FROM vaults v WHERE v.integrator_id = t.integrator_id ${perRow}) v
      CROSS JOIN LATERAL (SELECT * FROM integrators i WHERE i.integrator_id = t.integrator_id ${perRow}) i
      CROSS JOIN LATERAL (
        SELECT *, ctid, xmin FROM vault_balances b WHERE b.integrator_id = t.integrator_id ${perRow}
      ) b
    )
    SELECT ${noUser}, ${openedVaults.of("o")} FROM opened o
    UNION ALL SELECT ${userRows.of("b")}, ${noVault} FROM ${balancesOf(sql, touched)}
    UNION ALL SELECT ${userRows.of("b")}, ${noVault} FROM opened o CROSS JOIN LATERAL (
      SELECT *, ctid, xmin FROM user_balances b WHERE b.integrator_id = o.integrator_id AND b.asset = o.asset
        AND b.owed > 0 AND b.due_at <= o.now ORDER BY b.due_at, b.due_creation LIMIT ${value.int4(budget + 1)}
    ) b`.values
  const isVault = ([integratorIdOfUser]: ReadonlyArray<unknown>) => integratorIdOfUser === null
  const vaults = openedVaults.rows(values.filter(isVault).map((vault) => vault.slice(userWidth)))
  const byVault = Map.groupBy(vaults, ({ integratorId }) => integratorId)
  const books = new Map([...byVault].flatMap(([integratorId, both]) => {
    const [vault] = both
    return vault === undefined ? [] : [[integratorId, bookOf(vault, both, real, budget)] as const]
  }))
  yield* addUsers(books, values.filter((row) => !isVault(row)), touched)
  return books
})

const bookOf = (
  vault: OpenedVaultRow,
  rows: ReadonlyArray<OpenedVaultRow>,
  real: number,
  budget: number
): Book =>
  new Book({
    integratorId: vault.integratorId,
    vaultId: vault.vaultId,
    now: real + Number(vault.clockOffsetMillis),
    offsetMillis: Number(vault.clockOffsetMillis),
    creations: vault.rewards,
    stored: {
      ctid: vault.vaultCtid,
      xmin: vault.vaultXmin,
      entries: vault.entries,
      events: vault.events,
      salt: vault.eventSalt
    },
    workAt: vault.workAt ?? undefined,
    hasPayouts: vault.hasPayouts,
    vault: accountsOf(rows),
    lowFunds: new Map(rows.flatMap(({ asset, free, lowFunds }) =>
      lowFunds === null ? [] : [[asset, { threshold: lowFunds, freeBefore: free }] as const])),
    budget
  })

/** The rows themselves are the accounts. */
const accountsOf = (rows: ReadonlyArray<OpenedVaultRow>): Book["vault"] => {
  const of = (asset: Asset): VaultAccounts => {
    const row = rows.find((one) => one.asset === asset)
    if (row === undefined) throw new Error(`a vault without ${asset}`)
    return row
  }
  return { USDC: of("USDC"), EURe: of("EURe") }
}

/** Adds the users of a statement's `values`, which selects {@link userRows}, with their unfinished claims. */
const addUsers = Effect.fnUntraced(function*(
  books: ReadonlyMap<IntegratorId, Book>,
  values: ReadonlyArray<ReadonlyArray<unknown>>,
  touched: ReadonlyArray<Touched> = []
) {
  for (const row of userRows.rows(values)) {
    const { ctid, dueAt, dueCreation, xmin } = row
    books.get(row.integratorId)?.addUser({
      userId: row.userId,
      asset: row.asset,
      awaitingFunding: row.awaitingFunding,
      pending: row.pending,
      claimable: row.claimable,
      paid: row.paid,
      owed: row.owed,
      firstPending: dueAt === null || dueCreation === null ? undefined : { claimableAt: dueAt, creation: dueCreation },
      firstWaiting: row.firstWaiting ?? undefined,
      stored: { ctid, xmin },
      isChanged: false,
      areFirstsOutdated: false
    })
  }
  for (const { integratorId, userIds } of touched) {
    for (const userId of userIds) books.get(integratorId)?.markRead(userId)
  }
  yield* readPayouts(books)
})

/** SQL for the balances `b` of users. */
const balancesOf = (sql: SqlClient.SqlClient, touched: ReadonlyArray<Touched>) => {
  const users = touched.flatMap(({ integratorId, userIds }) => [...userIds].map((userId) => ({ integratorId, userId })))
  return sql`${userKeys.unnest(users)} CROSS JOIN LATERAL (
    SELECT *, ctid, xmin FROM user_balances b WHERE ${userKeys.match("b", "t")} ${perRow}
  ) b`
}

/** Reads users who owe and have waiting rewards that money is assigned to, the first `limit` by creation. */
export const readAssignable = Effect.fnUntraced(function*(book: Book, asset: Asset, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const books = new Map([[book.integratorId, book]])
  const values = yield* sql`
    SELECT ${userRows.of("b")} FROM user_balances b
    WHERE b.integrator_id = ${book.integratorId} AND b.asset = ${asset} AND b.owed > 0
      AND b.first_waiting <= ${value.int8(book.vault[asset].assignedTo)}
    ORDER BY b.first_waiting LIMIT ${value.int4(limit)}`.values
  yield* addUsers(books, values)
})

/** Reads the unfinished claims of all users that the books have. Nearly always no vault has one. */
const readPayouts = Effect.fnUntraced(function*(books: ReadonlyMap<IntegratorId, Book>) {
  const users = [...books.values()].filter((book) => book.hasPayouts).flatMap(({ accounts, integratorId, payouts }) =>
    accounts.filter((one) => !payouts.has(one)).map(({ asset, userId }) => ({ integratorId, userId, asset })))
  if (users.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Payout & { integratorId: IntegratorId }>`
    SELECT p.* FROM ${payoutKeys.unnest(users)}
    CROSS JOIN LATERAL (SELECT * FROM payouts p WHERE ${payoutKeys.match("p", "t")} ${perRow}) p`
  for (const { integratorId, ...payout } of rows) {
    books.get(integratorId)?.addPayout(payout)
  }
})

/** Reads the rewards of the touched clearings. */
export const readRefunded = Effect.fnUntraced(function*(
  books: ReadonlyMap<IntegratorId, Book>,
  touched: ReadonlyArray<Touched>
) {
  const targets = touched.flatMap(({ clearings = [], integratorId }) =>
    clearings.map((key) => ({ integratorId, ...key })))
  if (targets.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<RewardRow>`
    SELECT r.* FROM ${transactions.unnest(targets)}
    JOIN rewards r ON ${transactions.match("r", "t")} AND r.kind = 'clearing'`
  for (const row of rows) books.get(row.integratorId)?.addReward(row)
})

/** Reads the accounts of users whose rewards or payouts were read, and who are not among the touched ones. */
export const readMissingUsers = Effect.fnUntraced(function*(
  book: Book,
  rows: ReadonlyArray<Pick<RewardRow, "userId" | "asset">>
) {
  const userIds = new Set(rows.filter((row) => !book.hasUser(row.userId, row.asset)).map((row) => row.userId))
  if (userIds.size === 0) return
  const { integratorId } = book
  const missing = [{ integratorId, userIds }]
  const sql = yield* SqlClient.SqlClient
  const values = yield* sql`SELECT ${userRows.of("b")} FROM ${balancesOf(sql, missing)}`.values
  yield* addUsers(new Map([[integratorId, book]]), values, missing)
})
