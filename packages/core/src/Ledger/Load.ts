import type { IntegratorId, VaultId } from "@card-rewards/domain/Ids"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import { type Payout, splitUserKey, type UserAccounts, userKey, type VaultAccounts } from "./Accounts.ts"
import { Book } from "./Book.ts"
import type { RewardRow } from "./RewardRow.ts"

/** Whose money a transaction is about to touch. */
export interface Touched {
  readonly integratorId: IntegratorId
  readonly userIds: ReadonlySet<string>
  /** Clearings whose rewards will be refunded. */
  readonly clearings: ReadonlyArray<{ readonly userId: string; readonly externalTransactionId: string }>
}

interface VaultRow {
  readonly integratorId: IntegratorId
  readonly vaultId: VaultId
  readonly rewards: bigint
  readonly workAt: number | null
  readonly offset: bigint
  readonly hasPayouts: boolean
}

/** Locks the vaults, in key order, and opens their books at the integrators' present time. */
export const lockVaults = Effect.fnUntraced(function*(integratorIds: ReadonlyArray<IntegratorId>, budget: number) {
  const sql = yield* SqlClient.SqlClient
  const ids = columns.text(integratorIds)
  yield* sql`SELECT integrator_id FROM vaults WHERE integrator_id = ANY(${ids}) ORDER BY integrator_id FOR UPDATE`
  const real = yield* Clock.currentTimeMillis
  const rows = yield* sql<VaultRow & { asset: Asset; assignedAt: number | null } & Omit<VaultAccounts, "assignedAt">>`
    SELECT v.integrator_id, v.vault_id, v.rewards, v.work_at, i.clock_offset_millis AS "offset",
      EXISTS (SELECT 1 FROM payouts p WHERE p.integrator_id = t.integrator_id LIMIT 1) AS has_payouts,
      b.asset, b.held, b.free, b.assigned, b.assigned_to, b.assigned_at
    FROM unnest(${ids}) AS t(integrator_id)
    CROSS JOIN LATERAL (SELECT * FROM vaults v WHERE v.integrator_id = t.integrator_id OFFSET 0) v
    CROSS JOIN LATERAL (SELECT * FROM integrators i WHERE i.integrator_id = t.integrator_id OFFSET 0) i
    CROSS JOIN LATERAL (SELECT * FROM vault_balances b WHERE b.integrator_id = t.integrator_id OFFSET 0) b`
  const byVault = Map.groupBy(rows, (row) => row.integratorId)
  return new Map([...byVault].flatMap(([integratorId, both]) => {
    const [vault] = both
    return vault === undefined ? [] : [[integratorId, bookOf(vault, accountsOf(both), real, budget)] as const]
  }))
})

const bookOf = (vault: VaultRow, accounts: Book["vault"], real: number, budget: number): Book =>
  new Book({
    integratorId: vault.integratorId,
    vaultId: vault.vaultId,
    now: real + Number(vault.offset),
    offsetMillis: Number(vault.offset),
    creations: vault.rewards,
    workAt: vault.workAt ?? undefined,
    hasPayouts: vault.hasPayouts,
    vault: accounts,
    budget
  })

const accountsOf = (
  rows: ReadonlyArray<Omit<VaultAccounts, "assignedAt"> & { readonly asset: Asset; readonly assignedAt: number | null }>
): Book["vault"] => {
  const of = (asset: Asset): VaultAccounts => {
    const row = rows.find((one) => one.asset === asset)
    if (row === undefined) throw new Error(`a vault without ${asset}`)
    const { assigned, assignedAt, assignedTo, free, held } = row
    return { held, free, assigned, assignedTo, assignedAt: assignedAt ?? undefined }
  }
  return { USDC: of("USDC"), EURe: of("EURe") }
}

/** Columns of `user_balances b` under the names that {@link UserRow} has: read without renaming, which takes longer. */
const accountColumns = `b.integrator_id AS "integratorId", b.user_id AS "userId", b.asset,
  b.awaiting_funding AS "awaitingFunding", b.pending, b.claimable, b.paid, b.owed, b.due_at AS "dueAt",
  b.due_creation AS "dueCreation", b.first_waiting AS "firstWaiting"`

interface UserRow extends Omit<UserAccounts, "firstPending" | "firstWaiting"> {
  readonly integratorId: IntegratorId
  readonly userId: string
  readonly asset: Asset
  readonly dueAt: number | null
  readonly dueCreation: bigint | null
  readonly firstWaiting: bigint | null
}

const addUsers = (books: ReadonlyMap<IntegratorId, Book>, rows: ReadonlyArray<UserRow>): void => {
  for (const { asset, dueAt, dueCreation, firstWaiting, integratorId, userId, ...accounts } of rows) {
    books.get(integratorId)?.addUser(userId, asset, {
      ...accounts,
      firstPending: dueAt === null || dueCreation === null ? undefined : { claimableAt: dueAt, creation: dueCreation },
      firstWaiting: firstWaiting ?? undefined
    })
  }
}

/**
 * Reads the accounts of the touched users, and of those who owe and have something due to recover from: the
 * first `limit` of an asset in the order in which they are applied, found by index steps. Who owes and has nothing to
 * recover from costs nothing. `OFFSET 0` makes PostgreSQL go row by row, whatever it knows of the tables.
 */
export const readUsers = Effect.fnUntraced(function*(
  books: ReadonlyMap<IntegratorId, Book>,
  touched: ReadonlyArray<Touched>,
  limit: number
) {
  const sql = yield* SqlClient.SqlClient
  const users = touched.flatMap((one) => [...one.userIds].map((userId) => ({ integratorId: one.integratorId, userId })))
  const vaults = [...books.values()].flatMap((book) => assets.map((asset) => ({ book, asset })))
  addUsers(books, yield* sql<UserRow>`
    SELECT ${sql.literal(accountColumns)} FROM unnest(${columns.text(users.map((user) => user.integratorId))},
      ${columns.text(users.map((user) => user.userId))}) AS t(integrator_id, user_id)
    CROSS JOIN LATERAL (
      SELECT * FROM user_balances b WHERE b.integrator_id = t.integrator_id AND b.user_id = t.user_id OFFSET 0
    ) b
    UNION ALL
    SELECT ${sql.literal(accountColumns)} FROM unnest(${columns.text(vaults.map(({ book }) => book.integratorId))},
      ${columns.text(vaults.map(({ asset }) => asset))}, ${columns.timestamptz(vaults.map(({ book }) => book.now))})
      AS t(integrator_id, asset, now)
    CROSS JOIN LATERAL (
      SELECT * FROM user_balances b WHERE b.integrator_id = t.integrator_id AND b.asset = t.asset AND b.owed > 0
        AND b.due_at <= t.now ORDER BY b.due_at, b.due_creation LIMIT ${value.int4(limit)}
    ) b`.withoutTransform)
  for (const one of touched) {
    const book = books.get(one.integratorId)
    for (const userId of one.userIds) for (const asset of assets) book?.user(userId, asset)
  }
  yield* readPayouts(books)
})

/** Adds users who owe and have waiting rewards that money is assigned to, those of the first creations. */
export const readAssignable = Effect.fnUntraced(function*(book: Book, asset: Asset, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const books = new Map([[book.integratorId, book]])
  addUsers(books, yield* sql<UserRow>`
    SELECT ${sql.literal(accountColumns)} FROM user_balances b
    WHERE b.integrator_id = ${book.integratorId} AND b.asset = ${asset} AND b.owed > 0
      AND b.first_waiting <= ${value.int8(book.vault[asset].assignedTo)}
    ORDER BY b.first_waiting LIMIT ${value.int4(limit)}`.withoutTransform)
  yield* readPayouts(books)
})

/** The unfinished claims of all users that were read; nearly always no vault has one. */
const readPayouts = Effect.fnUntraced(function*(books: ReadonlyMap<IntegratorId, Book>) {
  const keys = [...books.values()].filter((book) => book.hasPayouts).flatMap((book) =>
    [...book.userKeys()].filter((key) => !book.payouts.has(key)).map((key) => ({ book, key })))
  if (keys.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const users = keys.map(({ book, key }) => ({ integratorId: book.integratorId, ...splitUserKey(key) }))
  const rows = yield* sql<Payout & { integratorId: IntegratorId }>`
    SELECT p.* FROM unnest(${columns.text(users.map((user) => user.integratorId))},
      ${columns.text(users.map((user) => user.userId))}, ${columns.text(users.map((user) => user.asset))})
      AS t(integrator_id, user_id, asset)
    CROSS JOIN LATERAL (
      SELECT * FROM payouts p
      WHERE p.integrator_id = t.integrator_id AND p.user_id = t.user_id AND p.asset = t.asset OFFSET 0
    ) p`
  for (const { integratorId, ...payout } of rows) {
    books.get(integratorId)?.payouts.set(userKey(payout.userId, payout.asset), payout)
  }
})

/** Reads the rewards of the clearings that will be refunded. */
export const readRefunded = Effect.fnUntraced(function*(
  books: ReadonlyMap<IntegratorId, Book>,
  touched: ReadonlyArray<Touched>
) {
  const targets = touched.flatMap((one) => one.clearings.map((key) => ({ integratorId: one.integratorId, ...key })))
  if (targets.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<RewardRow>`
    SELECT r.* FROM unnest(${columns.text(targets.map((key) => key.integratorId))},
      ${columns.text(targets.map((key) => key.userId))},
      ${columns.text(targets.map((key) => key.externalTransactionId))}) AS t(integrator_id, user_id, external_transaction_id)
    JOIN rewards r ON r.integrator_id = t.integrator_id AND r.user_id = t.user_id
      AND r.kind = 'clearing' AND r.external_transaction_id = t.external_transaction_id`
  for (const row of rows) books.get(row.integratorId)?.addReward(row)
})

/** Accounts of users who are not touched but whose rewards or payouts were read. */
export const readMissingUsers = Effect.fnUntraced(function*(
  book: Book,
  rows: ReadonlyArray<Pick<RewardRow, "userId" | "asset">>
) {
  const userIds = new Set(rows.filter((row) => !book.hasUser(row.userId, row.asset)).map((row) => row.userId))
  if (userIds.size === 0) return
  const { integratorId } = book
  yield* readUsers(new Map([[integratorId, book]]), [{ integratorId, userIds, clearings: [] }], 0)
})
