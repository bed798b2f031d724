import type { UserBalance } from "@card-rewards/domain/Balance"
import { InvalidRequest, NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { assets } from "@card-rewards/domain/Money"
import type { Page } from "@card-rewards/domain/Pagination"
import type { RewardPage } from "@card-rewards/domain/Reward"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import * as Database from "./Database.ts"
import { columns, value } from "./Database.ts"
import * as Gathering from "./Gathering.ts"
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
      const ask = yield* Gathering.make(
        "Rewards.readBalances",
        (asked: ReadonlyArray<Asked>) => run(readBalances(asked))
      )
      const reading = (integratorId: IntegratorId, userId: UserId) =>
        Effect.flatMap(Clock.currentTimeMillis, (at) => ask({ integratorId, userId, at }))
      return Rewards.of({
        list: Effect.fn("Rewards.list")((integratorId, userId, page) => run(list(integratorId, userId, page))),
        balance: Effect.fn("Rewards.balance")((integratorId, userId) =>
          run(balance(integratorId, userId, reading(integratorId, userId))))
      })
    })
  )
}

/** What a read of a user's rows found about what is due: to the user, perhaps through others, nothing. */
type Due = "due" | "waiting" | null

/**
 * Rows of a user, each of which tells besides whether something is due: to the user (rewards past their holding period,
 * and those that money is assigned to), or to users who owe: their recoveries may fund this user's waiting rewards
 * (decisions, section 6). What is due is applied, and the rows are read again; nearly always nothing is, and no lock is
 * taken.
 */
const settled = Effect.fnUntraced(function*<Row extends { readonly due: Due }, R>(
  integratorId: IntegratorId,
  userId: UserId,
  reading: Effect.Effect<ReadonlyArray<Row>, Unavailable, R>
) {
  const rows = yield* reading
  const isDue = rows.some(({ due }) => due === "due")
  if (!isDue && !rows.some(({ due }) => due === "waiting")) return rows
  if (!isDue && !(yield* isFundable(integratorId, userId))) return rows
  yield* Database.transaction(Effect.gen(function*() {
    const books = yield* Ledger.open([{ integratorId, userIds: new Set([userId]), clearings: [] }])
    yield* Ledger.write(books.values())
  }).pipe(Effect.catchTag("Behind", Ledger.refuseBehind)))
  return yield* reading
})

/** The integrator's time. */
const nowOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  return sql`(SELECT ${value.timestamptz(yield* Clock.currentTimeMillis)} + clock_offset_millis * interval '1 ms'
    FROM integrators WHERE integrator_id = ${integratorId})`
})

/** Pending rewards of a row of `user_balances` past their holding period; found in the index of what is unpaid. */
const isPastHolding = (sql: SqlClient.SqlClient, now: Statement.Fragment) =>
  sql`EXISTS (SELECT 1 FROM rewards r WHERE r.integrator_id = b.integrator_id AND r.user_id = b.user_id
    AND r.asset = b.asset AND r.state IN ('Pending', 'Claimable') AND coalesce(r.state, '') = 'Pending'
    AND r.claimable_at <= ${now} LIMIT 1)`

/** What stands in a row of `user_balances` tells nearly always that there is nothing to look for. */
const dueOf = (sql: SqlClient.SqlClient, now: Statement.Fragment) =>
  sql`CASE WHEN b.pending > 0 AND ${isPastHolding(sql, now)} THEN 'due' WHEN b.awaiting_funding > 0 THEN 'waiting' END`

/**
 * Whether money is assigned to waiting rewards of the user, or may come from users who owe. What is looked for is looked
 * for row by row, with a LIMIT: so it is a step into one user's rewards, whatever the planner knows of the tables.
 */
const isFundable = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* nowOf(integratorId)
  const [row] = yield* sql<{ due: boolean }>`
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
    ) AS due`
  return row?.due === true
}, Database.available)

/** What is shown of a reward, named as the rows are: to rename the columns of every row would take longer than the rest. */
const shownColumns = `integrator_id AS "integratorId", user_id AS "userId", kind,
  external_transaction_id AS "externalTransactionId", program_id AS "programId", program_version AS "programVersion",
  creation, asset, state, currency, spend, refunded_spend AS "refundedSpend", earned, amount, paid, recovered,
  clawed_back AS "clawedBack", claimable_at AS "claimableAt", created_at AS "createdAt", updated_at AS "updatedAt",
  revision`

const list = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId, page: Page) {
  const before = page.cursor === undefined ? undefined : yield* readCursor(page.cursor)
  const reading = readPage(integratorId, userId, before ?? 2n ** 63n - 1n, page.limit + 1)
  const rows = yield* settled(integratorId, userId, reading)
  const shown = rows.slice(0, page.limit)
  const last = shown.at(-1)
  const rewards = shown.map(encodeReward)
  return rows.length > page.limit && last !== undefined ? { rewards, next: printCursor(last.creation) } : { rewards }
})

const readPage = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  userId: UserId,
  before: bigint,
  limit: number
) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* nowOf(integratorId)
  return yield* sql.withoutTransforms()<ShownReward & { readonly due: Due }>`
    SELECT ${sql.literal(shownColumns)}, (
        SELECT min(${dueOf(sql, now)}) FROM user_balances b
        WHERE b.integrator_id = ${integratorId} AND b.user_id = ${userId}
      ) AS due
    FROM rewards WHERE integrator_id = ${integratorId} AND user_id = ${userId} AND creation < ${value.int8(before)}
    ORDER BY creation DESC LIMIT ${value.int4(limit)}`
}, Database.available)

const printCursor = (creation: bigint): string => `r${creation.toString(36)}`

const readCursor = (cursor: string) => {
  const digits = /^r([0-9a-z]{1,12})$/.exec(cursor)?.[1]
  return digits === undefined
    ? Effect.fail(new InvalidRequest({ part: "query", message: "cursor: expected the `next` of an earlier page" }))
    : Effect.succeed([...digits].reduce((sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)), 0n))
}

type AssetBalance = UserBalance["balances"][number]

const balance = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  userId: UserId,
  reading: Effect.Effect<ReadonlyArray<BalanceRow>, Unavailable>
) {
  const rows = yield* settled(integratorId, userId, reading)
  if (rows.length === 0) return yield* NotFound.of("user", userId)
  return { userId, balances: assets.flatMap((asset) => rows.filter((row) => row.asset === asset).map(withoutDue)) }
})

const withoutDue = (
  { asset, awaitingFunding, claimable, expected, owed, paid, pending }: AssetBalance
): AssetBalance => ({
  asset,
  expected,
  pending,
  claimable,
  paid,
  owed,
  awaitingFunding
})

/** Whose balance is asked for, and when, in real time. */
interface Asked {
  readonly integratorId: IntegratorId
  readonly userId: UserId
  readonly at: number
}

interface BalanceRow extends AssetBalance {
  /** Place of the user among those that are asked for. */
  readonly place: number
  readonly due: Due
}

/** Two rows for each user who is enrolled, found row by row through the keys, whatever the planner knows. */
const readBalances = Effect.fnUntraced(function*(asked: ReadonlyArray<Asked>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql.withoutTransforms()<BalanceRow>`
    SELECT t.place, a.asset, coalesce(e.expected, 0) AS expected, coalesce(b.pending, 0) AS pending,
      coalesce(b.claimable, 0) AS claimable, coalesce(b.paid, 0) AS paid, coalesce(b.owed, 0) AS owed,
      coalesce(b.awaiting_funding, 0) AS "awaitingFunding", ${dueOf(sql, sql`i.now`)} AS due
    FROM unnest(${columns.text(asked.map(({ integratorId }) => integratorId))}, ${
    columns.text(asked.map(({ userId }) => userId))
  }, ${columns.timestamptz(asked.map(({ at }) => at))}, ${
    columns.int4(asked.map((_, place) => place))
  }) AS t(integrator_id, user_id, at, place)
    CROSS JOIN LATERAL (
      SELECT t.at + clock_offset_millis * interval '1 ms' AS now
      FROM integrators i WHERE i.integrator_id = t.integrator_id OFFSET 0
    ) i
    CROSS JOIN LATERAL (
      SELECT 1 FROM users u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id OFFSET 0
    ) u
    CROSS JOIN (VALUES ('USDC'), ('EURe')) AS a(asset)
    LEFT JOIN LATERAL (
      SELECT * FROM user_balances b
      WHERE b.integrator_id = t.integrator_id AND b.user_id = t.user_id AND b.asset = a.asset OFFSET 0
    ) b ON true
    LEFT JOIN LATERAL (
      SELECT * FROM expected_balances e
      WHERE e.integrator_id = t.integrator_id AND e.user_id = t.user_id AND e.asset = a.asset OFFSET 0
    ) e ON true`
  const byPlace = Map.groupBy(rows, ({ place }) => place)
  return (place: number) => byPlace.get(place) ?? []
})
