import type { UserBalance } from "@card-rewards/domain/Balance"
import { InvalidRequest, NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { type Asset, assets } from "@card-rewards/domain/Money"
import type { Page } from "@card-rewards/domain/Pagination"
import type { RewardPage } from "@card-rewards/domain/Reward"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import * as Ledger from "./Ledger.ts"
import { encodeReward, type ShownReward } from "./Ledger/Book.ts"

/** What a user has: rewards and balances, exact at the moment of the read. */
export class Rewards extends Context.Service<Rewards, {
  /** A page of a user's rewards as it goes over the wire, newest first; empty for a user who is not enrolled. */
  readonly list: (
    integratorId: IntegratorId,
    userId: UserId,
    page: Page
  ) => Effect.Effect<typeof RewardPage.Encoded, InvalidRequest | Unavailable>
  /** Both assets always, USDC first. */
  readonly balance: (
    integratorId: IntegratorId,
    userId: UserId
  ) => Effect.Effect<UserBalance, NotFound | Unavailable>
}>()("@card-rewards/core/Rewards") {
  static readonly layer = Layer.effect(
    Rewards,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return Rewards.of({
        list: Effect.fn("Rewards.list")((integratorId, userId, page) => run(list(integratorId, userId, page))),
        balance: Effect.fn("Rewards.balance")((integratorId, userId) => run(balance(integratorId, userId)))
      })
    })
  )
}

/** What a read of a user's rows found about what is due: to the user, perhaps through others, nothing. */
type Due = "due" | "waiting" | null

/**
 * Rows of a user that tell besides whether something is due: to the user (rewards past their holding period, and those
 * that money is assigned to), or to users who owe: their recoveries may fund this user's waiting rewards (decisions,
 * section 6). What is due is applied, and the rows are read again; nearly always nothing is, and no lock is taken.
 */
const readSettled = Effect.fnUntraced(function*<Row extends object>(
  integratorId: IntegratorId,
  userId: UserId,
  read: (due: Statement.Fragment) => Effect.Effect<ReadonlyArray<Row & { readonly due: Due }>, SqlError.SqlError>
) {
  const sql = yield* SqlClient.SqlClient
  const now = sql`(SELECT ${value.timestamptz(yield* Clock.currentTimeMillis)} + clock_offset_millis * interval '1 ms'
    FROM integrators WHERE integrator_id = ${integratorId})`
  const reading = Database.available(read(isDue(sql, integratorId, userId, now)))
  const rows = yield* reading
  const due = rows[0]?.due ?? null
  if (due === null) return rows
  if (due === "waiting" && !(yield* Database.available(isFundable(sql, integratorId, userId, now)))) return rows
  yield* Database.transaction(Effect.gen(function*() {
    const books = yield* Ledger.open([{ integratorId, userIds: new Set([userId]), clearings: [] }])
    yield* Ledger.write(books.values())
  }))
  return yield* reading
})

/** Pending rewards of a row of `user_balances` past their holding period; found in the index of what is unpaid. */
const isPastHolding = (sql: SqlClient.SqlClient, now: Statement.Fragment) =>
  sql`EXISTS (SELECT 1 FROM rewards r WHERE r.integrator_id = b.integrator_id AND r.user_id = b.user_id
    AND r.asset = b.asset AND r.state IN ('Pending', 'Claimable') AND coalesce(r.state, '') = 'Pending'
    AND r.claimable_at <= ${now} LIMIT 1)`

/** What stands in the user's balances tells nearly always that there is nothing to look for. */
const isDue = (sql: SqlClient.SqlClient, integratorId: IntegratorId, userId: UserId, now: Statement.Fragment) =>
  sql`(SELECT min(CASE WHEN b.pending > 0 AND ${isPastHolding(sql, now)} THEN 'due'
      WHEN b.awaiting_funding > 0 THEN 'waiting' END)
    FROM user_balances b WHERE b.integrator_id = ${integratorId} AND b.user_id = ${userId}) AS due`

/**
 * Whether money is assigned to waiting rewards of the user, or may come from users who owe. What is looked for is looked
 * for row by row, with a LIMIT: so it is a step into one user's rewards, whatever the planner knows of the tables.
 */
const isFundable = (sql: SqlClient.SqlClient, integratorId: IntegratorId, userId: UserId, now: Statement.Fragment) =>
  Effect.map(
    sql<{ due: boolean }>`
      SELECT EXISTS (
        SELECT 1 FROM vault_balances v CROSS JOIN LATERAL (
          SELECT 1 FROM rewards r WHERE r.integrator_id = v.integrator_id AND r.user_id = ${userId}
            AND r.asset = v.asset AND r.state = 'AwaitingFunding' AND r.creation <= v.assigned_to LIMIT 1
        ) r WHERE v.integrator_id = ${integratorId} AND v.assigned > 0
      ) OR EXISTS (
        SELECT 1 FROM user_balances b
        WHERE b.integrator_id = ${integratorId} AND b.owed > 0 AND b.pending > 0 AND ${isPastHolding(sql, now)}
      ) OR EXISTS (
        SELECT 1 FROM vault_balances v JOIN user_balances b ON b.integrator_id = v.integrator_id AND b.asset = v.asset
          AND b.owed > 0 AND b.awaiting_funding > 0
        CROSS JOIN LATERAL (
          SELECT 1 FROM rewards r WHERE r.integrator_id = b.integrator_id AND r.user_id = b.user_id AND r.asset = b.asset
            AND r.state = 'AwaitingFunding' AND r.creation <= v.assigned_to AND r.claimable_at <= ${now} LIMIT 1
        ) r WHERE v.integrator_id = ${integratorId} AND v.assigned > 0
      ) AS due`,
    ([row]) => row?.due === true
  )

/** What is shown of a reward, named as the rows are: to rename the columns of every row would take longer than the rest. */
const shownColumns = `integrator_id AS "integratorId", user_id AS "userId", kind,
  external_transaction_id AS "externalTransactionId", program_id AS "programId", program_version AS "programVersion",
  creation, asset, state, currency, spend, refunded_spend AS "refundedSpend", earned, amount, paid, recovered,
  clawed_back AS "clawedBack", claimable_at AS "claimableAt", created_at AS "createdAt", updated_at AS "updatedAt",
  revision`

const list = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId, page: Page) {
  const before = page.cursor === undefined ? undefined : yield* readCursor(page.cursor)
  const sql = yield* SqlClient.SqlClient
  const rows = yield* readSettled(integratorId, userId, (due) =>
    sql.withoutTransforms()<ShownReward & { due: Due }>`
      SELECT ${sql.literal(shownColumns)}, ${due} FROM rewards WHERE integrator_id = ${integratorId} AND user_id = ${userId}
        AND creation < ${value.int8(before ?? 2n ** 63n - 1n)}
      ORDER BY creation DESC LIMIT ${value.int4(page.limit + 1)}`)
  const shown = rows.slice(0, page.limit)
  const last = shown.at(-1)
  const rewards = shown.map(encodeReward)
  return rows.length > page.limit && last !== undefined ? { rewards, next: printCursor(last.creation) } : { rewards }
})

const printCursor = (creation: bigint): string => `r${creation.toString(36)}`

const readCursor = (cursor: string) => {
  const digits = /^r([0-9a-z]{1,12})$/.exec(cursor)?.[1]
  return digits === undefined
    ? Effect.fail(new InvalidRequest({ part: "query", message: "cursor: expected the `next` of an earlier page" }))
    : Effect.succeed([...digits].reduce((sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)), 0n))
}

type Balance = Record<keyof Omit<UserBalance["balances"][number], "asset">, bigint> & { readonly asset: Asset }

const balance = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* readSettled(integratorId, userId, (due) =>
    sql<Balance & { due: Due }>`
      SELECT a.asset, coalesce(e.expected, 0) AS expected, coalesce(b.pending, 0) AS pending,
        coalesce(b.claimable, 0) AS claimable, coalesce(b.paid, 0) AS paid, coalesce(b.owed, 0) AS owed,
        coalesce(b.awaiting_funding, 0) AS awaiting_funding, ${due}
      FROM users u CROSS JOIN (VALUES ('USDC'), ('EURe')) AS a(asset)
      LEFT JOIN user_balances b ON b.integrator_id = u.integrator_id AND b.user_id = u.user_id AND b.asset = a.asset
      LEFT JOIN expected_balances e ON e.integrator_id = u.integrator_id AND e.user_id = u.user_id AND e.asset = a.asset
      WHERE u.integrator_id = ${integratorId} AND u.user_id = ${userId}`)
  if (rows.length === 0) return yield* NotFound.of("user", userId)
  return { userId, balances: assets.flatMap((asset) => rows.filter((row) => row.asset === asset).map(withoutDue)) }
})

const withoutDue = ({ asset, awaitingFunding, claimable, expected, owed, paid, pending }: Balance): Balance => ({
  asset,
  expected,
  pending,
  claimable,
  paid,
  owed,
  awaitingFunding
})
