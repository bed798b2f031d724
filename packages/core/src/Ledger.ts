import type { IntegratorId, VaultId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { assets } from "@card-rewards/domain/Money"
import { earn, fund, mature, refund } from "@card-rewards/domain/Reward"
import { Clock, Effect } from "effect"
import type { SqlError } from "effect/sql"
import { SqlClient } from "effect/sql"
import { columns, value } from "./Database.ts"
import { Book, type RewardRow, rewardKey, type UserAccounts, userKey } from "./Ledger/Book.ts"
import * as Writes from "./Ledger/Writes.ts"

/** Whose money a transaction is about to touch. */
export interface Touched {
  readonly integratorId: IntegratorId
  readonly userIds: ReadonlySet<string>
  /** Clearings whose rewards will be refunded. */
  readonly clearings: ReadonlyArray<{ readonly userId: string; readonly externalTransactionId: string }>
}

/** What a clearing earns in one program; see {@link earnReward}. */
export type EarnedReward = Pick<
  RewardRow,
  | "userId"
  | "externalTransactionId"
  | "programId"
  | "programVersion"
  | "asset"
  | "categoryId"
  | "purchaseAt"
  | "currency"
  | "monthUsedBefore"
  | "categoryUsedBefore"
  | "claimableAt"
  | "earned"
  | "spend"
>

/** Waiting rewards are read in pieces of this many. */
const waitingPage = 200

/** How many due rewards beyond those of the touched users one transaction takes. */
export const dueBatch = 1_000

/**
 * Locks the vaults (in key order), opens their books at the integrators' present time and applies what is due to the
 * touched users and to users who owe, so that what follows sees money as it stands now (decisions, section 6).
 * Runs inside the caller's transaction. With `alsoDue`, up to {@link dueBatch} due rewards of anyone are applied too.
 */
export const open = Effect.fnUntraced(function*(
  touched: ReadonlyArray<Touched>,
  options: { readonly alsoDue?: boolean } = {}
): Effect.fn.Return<ReadonlyMap<IntegratorId, Book>, SqlError.SqlError, SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  const ids = columns.text(touched.map((one) => one.integratorId))
  yield* sql`SELECT integrator_id FROM vaults WHERE integrator_id = ANY(${ids}) ORDER BY integrator_id FOR UPDATE`
  const real = yield* Clock.currentTimeMillis
  const vaults = yield* sql<{
    integratorId: IntegratorId
    vaultId: VaultId
    rewards: bigint
    offset: bigint
    usdcHeld: bigint
    usdcFree: bigint
    eureHeld: bigint
    eureFree: bigint
  }>`SELECT v.integrator_id, v.vault_id, v.rewards, i.clock_offset_millis AS "offset",
      u.held AS usdc_held, u.free AS usdc_free, e.held AS eure_held, e.free AS eure_free
    FROM vaults v
    JOIN integrators i ON i.integrator_id = v.integrator_id
    JOIN vault_balances u ON u.integrator_id = v.integrator_id AND u.asset = 'USDC'
    JOIN vault_balances e ON e.integrator_id = v.integrator_id AND e.asset = 'EURe'
    WHERE v.integrator_id = ANY(${ids})`
  const books = new Map(vaults.map((vault) => [
    vault.integratorId,
    new Book({
      integratorId: vault.integratorId,
      vaultId: vault.vaultId,
      now: real + Number(vault.offset),
      creations: vault.rewards,
      vault: {
        USDC: { held: vault.usdcHeld, free: vault.usdcFree },
        EURe: { held: vault.eureHeld, free: vault.eureFree }
      }
    })
  ]))
  yield* readUsers(books, touched)
  yield* readRefunded(books, touched)
  const due = yield* readDue(books, options.alsoDue === true)
  for (const [book, rows] of due) yield* applyDue(book, rows)
  return books
})

/** Reads the accounts of the touched users, and of all who owe. */
const readUsers = Effect.fnUntraced(function*(
  books: ReadonlyMap<IntegratorId, Book>,
  touched: ReadonlyArray<Touched>
) {
  const sql = yield* SqlClient.SqlClient
  const users = touched.flatMap((one) => [...one.userIds].map((userId) => ({ integratorId: one.integratorId, userId })))
  const rows = yield* sql<UserAccounts & { integratorId: IntegratorId; userId: string; asset: Asset }>`
    SELECT b.integrator_id, b.user_id, b.asset, b.awaiting_funding, b.pending, b.claimable, b.paid, b.owed
    FROM unnest(${columns.text(users.map((user) => user.integratorId))},
      ${columns.text(users.map((user) => user.userId))}) AS t(integrator_id, user_id)
    JOIN user_balances b ON b.integrator_id = t.integrator_id AND b.user_id = t.user_id
    UNION ALL
    SELECT b.integrator_id, b.user_id, b.asset, b.awaiting_funding, b.pending, b.claimable, b.paid, b.owed
    FROM user_balances b WHERE b.integrator_id = ANY(${columns.text([...books.keys()])}) AND b.owed > 0`
  for (const { integratorId, userId, asset, ...accounts } of rows) {
    books.get(integratorId)?.meetUser(userId, asset, accounts)
  }
  for (const one of touched) {
    const book = books.get(one.integratorId)
    for (const userId of one.userIds) for (const asset of assets) book?.user(userId, asset)
  }
})

const readRefunded = Effect.fnUntraced(function*(
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

/** The due rewards of the users whose accounts were read, and with `ofAnyone` a batch of all others'. */
const readDue = Effect.fnUntraced(function*(books: ReadonlyMap<IntegratorId, Book>, ofAnyone: boolean) {
  const sql = yield* SqlClient.SqlClient
  const users = [...books.values()].flatMap((book) => book.userIds().map((userId) => ({ book, userId })))
  const rows = [
    ...(yield* sql<RewardRow>`
      SELECT r.* FROM unnest(${columns.text(users.map(({ book }) => book.integratorId))},
        ${columns.text(users.map(({ userId }) => userId))},
        ${columns.timestamptz(users.map(({ book }) => book.now))}) AS t(integrator_id, user_id, now)
      JOIN rewards r ON r.integrator_id = t.integrator_id AND r.user_id = t.user_id
        AND r.state = 'Pending' AND r.claimable_at <= t.now`)
  ]
  if (ofAnyone) {
    for (const book of books.values()) {
      rows.push(...yield* sql<RewardRow>`
        SELECT * FROM rewards WHERE integrator_id = ${book.integratorId} AND state = 'Pending'
          AND claimable_at <= ${value.timestamptz(book.now)}
        ORDER BY claimable_at, creation LIMIT ${value.int4(dueBatch)}`)
    }
  }
  const due = new Map<Book, Set<RewardRow>>()
  for (const row of rows) {
    const book = books.get(row.integratorId)
    if (book === undefined) continue
    const known = due.get(book) ?? new Set()
    due.set(book, known.add(book.meet(row)))
  }
  if (ofAnyone) yield* readMissingUsers(books, rows)
  return due
})

/** Accounts of users who are not touched but whose rewards were read. */
const readMissingUsers = Effect.fnUntraced(function*(
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

const applyDue = Effect.fnUntraced(function*(book: Book, due: ReadonlySet<RewardRow>) {
  const inOrder = [...due].sort((a, b) =>
    a.claimableAt - b.claimableAt || (a.creation < b.creation ? -1 : a.creation > b.creation ? 1 : 0)
  )
  for (const row of inOrder) {
    const present = book.rewards.get(rewardKey(row))
    if (present?.state !== "Pending") continue
    const free = book.vault[row.asset].free
    matureReward(book, present)
    if (book.vault[row.asset].free > free) yield* serveWaiting(book, row.asset)
  }
})

const matureReward = (book: Book, row: RewardRow): RewardRow =>
  book.change(row, mature(row, book.user(row.userId, row.asset).owed))

/** A clearing has earned in a program: reserved where free money covers it, claimable at once where it is due. */
export const earnReward = Effect.fnUntraced(function*(book: Book, reward: EarnedReward) {
  const { earned, spend, ...row } = reward
  const created = book.create(
    { ...row, integratorId: book.integratorId, kind: "clearing" },
    earn(earned, spend, book.vault[reward.asset].free)
  )
  if (created.state === "AwaitingFunding") {
    book.waiting(created.asset).push(created)
  } else if (created.claimableAt <= book.now) {
    const free = book.vault[reward.asset].free
    matureReward(book, created)
    if (book.vault[reward.asset].free > free) yield* serveWaiting(book, reward.asset)
  }
})

/** The refunds of a clearing now add up to `refundedCents`: each of its rewards shrinks in proportion. */
export const refundClearing = Effect.fnUntraced(function*(
  book: Book,
  userId: string,
  programIds: ReadonlyArray<string>,
  externalTransactionId: string,
  refundedCents: bigint
) {
  for (const programId of programIds) {
    const row = book.rewards.get(rewardKey({ userId, kind: "clearing", externalTransactionId, programId }))
    const change = row && refund(row, refundedCents)
    if (row === undefined || change === undefined) continue
    book.change(row, change)
    yield* serveWaiting(book, row.asset)
  }
})

/**
 * Reserves waiting rewards, first in, first out, up to the first that does not fit. One that is past its holding
 * period becomes claimable before the next is funded.
 */
export const serveWaiting = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  while (true) {
    const head = yield* firstWaiting(book, asset)
    if (head === undefined || book.vault[asset].free < head.amount) return
    const funded = book.change(head, fund(head))
    if (funded.claimableAt <= book.now) matureReward(book, funded)
  }
})

/** The longest waiting reward of an asset as this transaction has it. */
const firstWaiting = Effect.fnUntraced(function*(book: Book, asset: Asset) {
  const queue = book.waiting(asset)
  while (true) {
    for (let key = queue.first(); key !== undefined; key = queue.first()) {
      const present = book.rewards.get(key)
      if (present?.state === "AwaitingFunding") return present
      queue.shift()
    }
    if (queue.readAll) return undefined
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<RewardRow>`
      SELECT * FROM rewards WHERE integrator_id = ${book.integratorId} AND asset = ${asset}
        AND state = 'AwaitingFunding' AND creation > ${value.int8(queue.readUpTo)}
      ORDER BY creation LIMIT ${value.int4(waitingPage)}`
    queue.read(rows.map((row) => book.meet(row)), waitingPage)
    yield* readMissingUsers(new Map([[book.integratorId, book]]), rows)
  }
})

/** Writes what the books have changed: rewards, balances, journal, events and their deliveries. */
export const write = (books: Iterable<Book>): Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient> =>
  Writes.write([...books])

export { Book, type RewardRow, rewardKey, userKey }
