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
import { encodeReward } from "./Ledger/Book.ts"

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

/**
 * Rows of a user that tell besides whether something is due: to the user (rewards past their holding period, and those
 * that money is assigned to), or to users who owe: their recoveries may fund this user's waiting rewards (decisions,
 * section 6). What is due is applied, and the rows are read again; nearly always nothing is, and no lock is taken.
 */
const readSettled = Effect.fnUntraced(function*<Row extends object>(
  integratorId: IntegratorId,
  userId: UserId,
  read: (due: Statement.Fragment) => Effect.Effect<ReadonlyArray<Row & { readonly due: boolean }>, SqlError.SqlError>
) {
  const due = isDue(yield* SqlClient.SqlClient, integratorId, userId, yield* Clock.currentTimeMillis)
  const rows = yield* Database.available(read(due))
  if (rows[0]?.due !== true) return rows
  yield* Database.transaction(Effect.gen(function*() {
    const books = yield* Ledger.open([{ integratorId, userIds: new Set([userId]), clearings: [] }])
    yield* Ledger.write(books.values())
  }))
  return yield* Database.available(read(due))
})

/**
 * What is looked for is looked for in order, each with a LIMIT: so it is a step into one user's rewards, whatever the
 * planner knows of the tables.
 */
const isDue = (sql: SqlClient.SqlClient, integratorId: IntegratorId, userId: UserId, real: number) =>
  sql`(WITH clock AS (
      SELECT ${value.timestamptz(real)} + clock_offset_millis * interval '1 millisecond' AS now
      FROM integrators WHERE integrator_id = ${integratorId}
    )
    SELECT EXISTS (
      SELECT 1 FROM clock CROSS JOIN LATERAL (
        SELECT 1 FROM rewards r WHERE r.integrator_id = ${integratorId} AND r.user_id = ${userId}
          AND r.asset = ANY('{USDC,EURe}') AND r.state IN ('Pending', 'Claimable') AND coalesce(r.state, '') = 'Pending'
          AND r.claimable_at <= clock.now LIMIT 1
      ) r
    ) OR EXISTS (
      SELECT 1 FROM vault_balances v CROSS JOIN LATERAL (
        SELECT 1 FROM rewards r WHERE r.integrator_id = v.integrator_id AND r.user_id = ${userId} AND r.asset = v.asset
          AND r.state = 'AwaitingFunding' AND r.creation <= v.assigned_to LIMIT 1
      ) r WHERE v.integrator_id = ${integratorId} AND v.assigned > 0
    ) OR EXISTS (
      SELECT 1 FROM clock CROSS JOIN user_balances b CROSS JOIN LATERAL (
        SELECT 1 FROM rewards r WHERE r.integrator_id = b.integrator_id AND r.user_id = b.user_id AND r.asset = b.asset
          AND r.state IN ('Pending', 'Claimable') AND coalesce(r.state, '') = 'Pending'
          AND r.claimable_at <= clock.now LIMIT 1
      ) r WHERE b.integrator_id = ${integratorId} AND b.owed > 0
    ) OR EXISTS (
      SELECT 1 FROM clock CROSS JOIN vault_balances v JOIN user_balances b ON b.integrator_id = v.integrator_id
        AND b.asset = v.asset AND b.owed > 0
      CROSS JOIN LATERAL (
        SELECT 1 FROM rewards r WHERE r.integrator_id = b.integrator_id AND r.user_id = b.user_id AND r.asset = b.asset
          AND r.state = 'AwaitingFunding' AND r.creation <= v.assigned_to AND r.claimable_at <= clock.now LIMIT 1
      ) r WHERE v.integrator_id = ${integratorId} AND v.assigned > 0
    )) AS due`

const list = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId, page: Page) {
  const before = page.cursor === undefined ? undefined : yield* readCursor(page.cursor)
  const sql = yield* SqlClient.SqlClient
  const rows = yield* readSettled(integratorId, userId, (due) =>
    sql<Ledger.RewardRow & { due: boolean }>`
      SELECT *, ${due} FROM rewards WHERE integrator_id = ${integratorId} AND user_id = ${userId}
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
    sql<Balance & { due: boolean }>`
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
