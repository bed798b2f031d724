import type { AssetBalance, UserBalance } from "@card-rewards/domain/Balance"
import { type InvalidRequest, NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { assets } from "@card-rewards/domain/Money"
import { invalidCursor, type Page } from "@card-rewards/domain/Pagination"
import type { RewardPage } from "@card-rewards/domain/Reward"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Batcher from "./Batcher.ts"
import { maxInt8, value, withinRequestDeadline } from "./Database.ts"
import { perRow, rewardsOfUser } from "./Database/PlannerHints.ts"
import { columnList, int4, nullable, numeric, type Row, text } from "./Database/Table.ts"
import { encodeReward } from "./Ledger/RewardRow.ts"
import * as Tables from "./Tables.ts"
import * as Tracing from "./Tracing.ts"
import { dueOf, nowOf, timeOfReads, UpToDate, type UserRead, userReads } from "./UpToDate.ts"

/** A user's rewards and balances, exact at the time of the read. */
export class Rewards extends Context.Service<Rewards, {
  /** A page of a user's rewards in its wire format, newest first; empty for a user who is not enrolled. */
  readonly list: (
    integratorId: IntegratorId,
    userId: UserId,
    page: Page
  ) => Effect.Effect<typeof RewardPage.Encoded, InvalidRequest | Unavailable>
  /** A user's balance in each asset in its wire format, USDC first. */
  readonly balance: (
    integratorId: IntegratorId,
    userId: UserId
  ) => Effect.Effect<typeof UserBalance.Encoded, NotFound | Unavailable>
}>()("@card-rewards/core/Rewards") {
  static readonly layer = Layer.effect(
    Rewards,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const upToDate = yield* UpToDate
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      const readBalance = yield* Batcher.ofReads<UserRead, ReadonlyArray<BalanceRow>>({
        name: "Rewards.readBalances",
        keyOf: ({ integratorId }) => integratorId,
        read: (reads) => run(readBalances(reads))
      })
      const reading = (integratorId: IntegratorId, userId: UserId) =>
        Effect.flatMap(Clock.currentTimeMillis, (at) => readBalance({ integratorId, userId, at }))
      return Rewards.of({
        list: (integratorId, userId, page) =>
          list(upToDate, integratorId, userId, page).pipe(run, Tracing.span("Rewards.list")),
        balance: (integratorId, userId) =>
          balance(upToDate, integratorId, userId, reading(integratorId, userId)).pipe(Tracing.span("Rewards.balance"))
      })
    })
  ).pipe(Layer.provide(UpToDate.layer))
}

const due = nullable(text())

const shown = Tables.rewards.pick(
  "integrator_id",
  "user_id",
  "kind",
  "external_transaction_id",
  "program_id",
  "program_version",
  "creation",
  "asset",
  "state",
  "currency",
  "spend",
  "refunded_spend",
  "earned",
  "amount",
  "paid",
  "recovered",
  "clawed_back",
  "claimable_at",
  "created_at",
  "updated_at",
  "revision"
)

/** The columns of {@link readPage}. */
const pageRow = columnList({ ...shown.columns, due })

const list = Effect.fnUntraced(function*(
  upToDate: UpToDate["Service"],
  integratorId: IntegratorId,
  userId: UserId,
  page: Page
) {
  const before = page.cursor === undefined ? undefined : yield* readCursor(page.cursor)
  const reading = readPage(integratorId, userId, before ?? maxInt8, page.limit + 1)
  const rows = yield* upToDate.read(integratorId, userId, reading)
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
  const values = yield* sql`
    SELECT ${shown.names}, (
        SELECT string_agg(${dueOf(sql, now)}, ' ' ORDER BY b.asset) FROM user_balances b
        WHERE b.integrator_id = ${integratorId} AND b.user_id = ${userId}
      ) AS due
    FROM rewards r WHERE ${sql.literal(rewardsOfUser("r"))} = (${value.text(integratorId)}, ${value.text(userId)})
      AND creation < ${value.int8(before)}
    ORDER BY creation DESC LIMIT ${value.int4(limit)}`.values
  return pageRow.rows(values)
}, withinRequestDeadline)

const printCursor = (creation: bigint): string => `r${creation.toString(36)}`

const readCursor = (cursor: string) => {
  const digits = /^r([0-9a-z]{1,12})$/.exec(cursor)?.[1]
  return digits === undefined
    ? Effect.fail(invalidCursor())
    : Effect.succeed([...digits].reduce((sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)), 0n))
}

const balance = Effect.fnUntraced(function*(
  upToDate: UpToDate["Service"],
  integratorId: IntegratorId,
  userId: UserId,
  reading: Effect.Effect<ReadonlyArray<BalanceRow>, Unavailable>
) {
  const rows = yield* upToDate.read(integratorId, userId, reading)
  if (rows.length === 0) return yield* NotFound.of("user", userId)
  return { userId, balances: assets.flatMap((asset) => rows.filter((row) => row.asset === asset).map(encodeBalance)) }
})

/** As the schema would encode it, which takes longer than the read itself. */
const encodeBalance = (row: BalanceRow): typeof AssetBalance.Encoded => ({
  asset: row.asset,
  expected: row.expected.toString(),
  pending: row.pending.toString(),
  claimable: row.claimable.toString(),
  paid: row.paid.toString(),
  owed: row.owed.toString(),
  awaitingFunding: row.awaitingFunding.toString()
})

/** The columns of {@link readBalances}, in their order there. */
const balanceRow = columnList({
  position: int4(),
  ...Tables.userBalances.pick("asset").columns,
  expected: numeric(),
  pending: numeric(),
  claimable: numeric(),
  paid: numeric(),
  owed: numeric(),
  awaiting_funding: numeric(),
  due
})

type BalanceRow = Row<typeof balanceRow>

/** Reads two rows for each enrolled user, by index look-ups row by row, whatever the statistics say. */
const readBalances = Effect.fnUntraced(function*(reads: ReadonlyArray<UserRead>) {
  const sql = yield* SqlClient.SqlClient
  const values = yield* sql`
    SELECT t.position, a.asset, coalesce(e.expected, 0), coalesce(b.pending, 0), coalesce(b.claimable, 0),
      coalesce(b.paid, 0), coalesce(b.owed, 0), coalesce(b.awaiting_funding, 0), ${dueOf(sql, sql`i.now`)}
    FROM ${userReads.unnest(reads.map((read, position) => ({ ...read, position })))} ${timeOfReads}
    CROSS JOIN LATERAL (
      SELECT 1 FROM users u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id ${perRow}
    ) u
    CROSS JOIN (VALUES ('USDC'), ('EURe')) AS a(asset)
    LEFT JOIN LATERAL (
      SELECT * FROM user_balances b
      WHERE b.integrator_id = t.integrator_id AND b.user_id = t.user_id AND b.asset = a.asset ${perRow}
    ) b ON true
    LEFT JOIN LATERAL (
      SELECT * FROM expected_balances e
      WHERE e.integrator_id = t.integrator_id AND e.user_id = t.user_id AND e.asset = a.asset ${perRow}
    ) e ON true`.values
  const byPosition = Map.groupBy(balanceRow.rows(values), ({ position }) => position)
  return (position: number) => byPosition.get(position) ?? []
})
