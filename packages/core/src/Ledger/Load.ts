import type { IntegratorId, VaultId } from "@card-rewards/domain/Ids"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { Clock, Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import { Behind, type Touched } from "./Behind.ts"
import { Book, type RewardRow, type UserAccounts } from "./Book.ts"

/** Locks the vaults, in key order, and opens their books at the integrators' present time. */
export const lockVaults = Effect.fnUntraced(function*(integratorIds: ReadonlyArray<IntegratorId>) {
  const sql = yield* SqlClient.SqlClient
  const ids = columns.text(integratorIds)
  yield* sql`SELECT integrator_id FROM vaults WHERE integrator_id = ANY(${ids}) ORDER BY integrator_id FOR UPDATE`
  const real = yield* Clock.currentTimeMillis
  const vaults = yield* sql<{
    integratorId: IntegratorId
    vaultId: VaultId
    rewards: bigint
    offset: bigint
    usdcHeld: bigint
    usdcFree: bigint
    usdcAssigned: bigint
    usdcAssignedTo: bigint
    eureHeld: bigint
    eureFree: bigint
    eureAssigned: bigint
    eureAssignedTo: bigint
  }>`SELECT v.integrator_id, v.vault_id, v.rewards, i.clock_offset_millis AS "offset",
      u.held AS usdc_held, u.free AS usdc_free, u.assigned AS usdc_assigned, u.assigned_to AS usdc_assigned_to,
      e.held AS eure_held, e.free AS eure_free, e.assigned AS eure_assigned, e.assigned_to AS eure_assigned_to
    FROM unnest(${ids}) AS t(integrator_id)
    CROSS JOIN LATERAL (SELECT * FROM vaults v WHERE v.integrator_id = t.integrator_id OFFSET 0) v
    CROSS JOIN LATERAL (SELECT * FROM integrators i WHERE i.integrator_id = t.integrator_id OFFSET 0) i
    CROSS JOIN LATERAL (
      SELECT * FROM vault_balances b WHERE b.integrator_id = t.integrator_id AND b.asset = 'USDC' OFFSET 0
    ) u
    CROSS JOIN LATERAL (
      SELECT * FROM vault_balances b WHERE b.integrator_id = t.integrator_id AND b.asset = 'EURe' OFFSET 0
    ) e`
  return new Map(vaults.map((vault) => [
    vault.integratorId,
    new Book({
      integratorId: vault.integratorId,
      vaultId: vault.vaultId,
      now: real + Number(vault.offset),
      creations: vault.rewards,
      vault: {
        USDC: {
          held: vault.usdcHeld,
          free: vault.usdcFree,
          assigned: vault.usdcAssigned,
          assignedTo: vault.usdcAssignedTo
        },
        EURe: {
          held: vault.eureHeld,
          free: vault.eureFree,
          assigned: vault.eureAssigned,
          assignedTo: vault.eureAssignedTo
        }
      }
    })
  ]))
})

const accountColumns = `b.integrator_id AS "integratorId", b.user_id AS "userId", b.asset,
  b.awaiting_funding AS "awaitingFunding", b.pending, b.claimable, b.paid, b.owed`

/**
 * Reads the accounts of the touched users, and of all who owe and have rewards that may pay it back. `OFFSET 0` makes
 * PostgreSQL go row by row, whatever it knows of the tables: the plan is right for any number of them.
 */
export const readUsers = Effect.fnUntraced(function*(
  books: ReadonlyMap<IntegratorId, Book>,
  touched: ReadonlyArray<Touched>
) {
  const sql = yield* SqlClient.SqlClient
  const users = touched.flatMap((one) => [...one.userIds].map((userId) => ({ integratorId: one.integratorId, userId })))
  const rows = yield* sql<UserAccounts & { integratorId: IntegratorId; userId: string; asset: Asset }>`
    SELECT ${sql.literal(accountColumns)} FROM unnest(${columns.text(users.map((user) => user.integratorId))},
      ${columns.text(users.map((user) => user.userId))}) AS t(integrator_id, user_id)
    CROSS JOIN LATERAL (
      SELECT * FROM user_balances b WHERE b.integrator_id = t.integrator_id AND b.user_id = t.user_id OFFSET 0
    ) b
    UNION ALL
    SELECT ${sql.literal(accountColumns)} FROM unnest(${columns.text([...books.keys()])}) AS t(integrator_id)
    CROSS JOIN LATERAL (
      SELECT * FROM user_balances b WHERE b.integrator_id = t.integrator_id AND b.owed > 0
        AND (b.pending > 0 OR b.awaiting_funding > 0) OFFSET 0
    ) b`.withoutTransform
  for (const { integratorId, userId, asset, ...accounts } of rows) {
    books.get(integratorId)?.meetUser(userId, asset, accounts)
  }
  for (const one of touched) {
    const book = books.get(one.integratorId)
    for (const userId of one.userIds) for (const asset of assets) book?.user(userId, asset)
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
  for (const row of rows) books.get(row.integratorId)?.meet(row)
})

/**
 * How many due or assigned rewards of the touched users one transaction applies. With more it fails with {@link Behind} until
 * the worker, which takes them piece by piece, has caught up.
 */
export const MaxOwn = Context.Reference<number>("@card-rewards/core/Ledger/MaxOwn", { defaultValue: () => 50_000 })

/** Blames the integrator with the most of the rewards that were read. */
const withinLimit = (rows: ReadonlyArray<RewardRow>, limit: number) => {
  if (rows.length <= limit) return Effect.succeed(rows)
  const byIntegrator = Map.groupBy(rows, (row) => row.integratorId)
  const [most] = [...byIntegrator].toSorted(([, a], [, b]) => b.length - a.length)
  const userIds = new Set(most?.[1].map((row) => row.userId))
  return Effect.fail(new Behind({
    touched: most === undefined ? [] : [{ integratorId: most[0], userIds, clearings: [] }],
    limit
  }))
}

/** Waiting rewards of the touched users that money is assigned to, and up to `ofAnyone` of all others'. */
export const readAssigned = Effect.fnUntraced(function*(
  book: Book,
  asset: Asset,
  userIds: ReadonlySet<string>,
  ofAnyone: number
) {
  const { assigned, assignedTo } = book.vault[asset]
  if (assigned === 0n) return []
  const sql = yield* SqlClient.SqlClient
  const limit = yield* MaxOwn
  const read = yield* sql<RewardRow>`
    SELECT r.* FROM unnest(${columns.text([...userIds])}) AS t(user_id) JOIN rewards r
      ON r.integrator_id = ${book.integratorId} AND r.user_id = t.user_id AND r.asset = ${asset}
      AND r.state = 'AwaitingFunding' AND r.creation <= ${value.int8(assignedTo)} LIMIT ${value.int4(limit + 1)}`
  const own = yield* withinLimit(read, limit)
  if (ofAnyone === 0) return own
  const first = yield* sql<RewardRow>`
    SELECT * FROM rewards WHERE integrator_id = ${book.integratorId} AND asset = ${asset}
      AND state = 'AwaitingFunding' AND creation <= ${value.int8(assignedTo)}
    ORDER BY creation LIMIT ${value.int4(ofAnyone)}`
  yield* readMissingUsers(new Map([[book.integratorId, book]]), first)
  return [...own, ...first]
})

/** The due rewards of the users whose accounts were read, and up to `ofAnyone` of all others'. */
export const readDue = Effect.fnUntraced(function*(books: ReadonlyMap<IntegratorId, Book>, ofAnyone: number) {
  const sql = yield* SqlClient.SqlClient
  const users = [...books.values()].flatMap((book) => book.pendingUsers().map((key) => ({ book, ...key })))
  const limit = yield* MaxOwn
  const own = yield* sql<RewardRow>`
    SELECT r.* FROM unnest(${columns.text(users.map(({ book }) => book.integratorId))},
      ${columns.text(users.map(({ userId }) => userId))}, ${columns.text(users.map(({ asset }) => asset))},
      ${columns.timestamptz(users.map(({ book }) => book.now))}) AS t(integrator_id, user_id, asset, now)
    CROSS JOIN LATERAL (
      SELECT * FROM rewards r WHERE r.integrator_id = t.integrator_id AND r.user_id = t.user_id AND r.asset = t.asset
        AND r.state = 'Pending' AND r.claimable_at <= t.now ORDER BY r.claimable_at, r.creation OFFSET 0
    ) r LIMIT ${value.int4(limit + 1)}`
  const rows = [...yield* withinLimit(own, limit)]
  if (ofAnyone > 0) {
    for (const book of books.values()) {
      rows.push(...yield* sql<RewardRow>`
        SELECT * FROM rewards WHERE integrator_id = ${book.integratorId} AND state = 'Pending'
          AND claimable_at <= ${value.timestamptz(book.now)}
        ORDER BY claimable_at, creation LIMIT ${value.int4(ofAnyone)}`)
    }
  }
  const due = new Map<Book, Set<RewardRow>>()
  for (const row of rows) {
    const book = books.get(row.integratorId)
    if (book === undefined) continue
    const known = due.get(book) ?? new Set()
    due.set(book, known.add(book.meet(row)))
  }
  if (ofAnyone > 0) yield* readMissingUsers(books, rows)
  return due
})

/** Accounts of users who are not touched but whose rewards were read. */
export const readMissingUsers = Effect.fnUntraced(function*(
  books: ReadonlyMap<IntegratorId, Book>,
  rows: ReadonlyArray<RewardRow>
) {
  const byIntegrator = new Map<IntegratorId, Set<string>>()
  for (const row of rows) {
    if (books.get(row.integratorId)?.hasUser(row.userId, row.asset) === true) continue
    const users = byIntegrator.get(row.integratorId) ?? new Set()
    byIntegrator.set(row.integratorId, users.add(row.userId))
  }
  if (byIntegrator.size === 0) return
  yield* readUsers(
    books,
    [...byIntegrator].map(([integratorId, userIds]) => ({ integratorId, userIds, clearings: [] }))
  )
})

/** The order in which waiting rewards are served. */
export const byCreation = (a: RewardRow, b: RewardRow): number =>
  a.creation < b.creation ? -1 : a.creation > b.creation ? 1 : 0
