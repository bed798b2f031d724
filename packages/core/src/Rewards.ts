import type { UserBalance } from "@card-rewards/domain/Balance"
import { InvalidRequest, NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { type Asset, assets } from "@card-rewards/domain/Money"
import type { Page } from "@card-rewards/domain/Pagination"
import { Reward, type RewardPage } from "@card-rewards/domain/Reward"
import { Clock, Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import * as Ledger from "./Ledger.ts"
import { encodeReward } from "./Ledger/Book.ts"

/** What a user has: rewards and balances, exact at the moment of the read. */
export class Rewards extends Context.Service<Rewards, {
  /** A page of a user's rewards, newest first; empty for a user who is not enrolled. */
  readonly list: (
    integratorId: IntegratorId,
    userId: UserId,
    page: Page
  ) => Effect.Effect<RewardPage, InvalidRequest | Unavailable>
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
        list: Effect.fn("Rewards.list")((integratorId, userId, page) =>
          Effect.andThen(settle(integratorId, userId), Database.available(list(integratorId, userId, page))).pipe(run)
        ),
        balance: Effect.fn("Rewards.balance")((integratorId, userId) =>
          Effect.andThen(settle(integratorId, userId), Database.available(balance(integratorId, userId))).pipe(run)
        )
      })
    })
  )
}

/**
 * Applies what is due to the user (rewards past their holding period, and those that money is assigned to), and to
 * users who owe: their recoveries may fund this user's waiting rewards
 * (decisions, section 6). Where nothing is due, which is nearly always, it takes no lock.
 */
const settle = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  if (!(yield* Database.available(isDue(integratorId, userId)))) return
  yield* Database.transaction(Effect.gen(function*() {
    const books = yield* Ledger.open([{ integratorId, userIds: new Set([userId]), clearings: [] }])
    yield* Ledger.write(books.values())
  }))
})

const isDue = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const [row] = yield* sql<{ due: boolean }>`
    WITH clock AS (
      SELECT ${value.timestamptz(real)} + clock_offset_millis * interval '1 millisecond' AS now
      FROM integrators WHERE integrator_id = ${integratorId}
    )
    SELECT EXISTS (
      SELECT 1 FROM rewards r, clock WHERE r.integrator_id = ${integratorId} AND r.user_id = ${userId}
        AND r.asset = ANY('{USDC,EURe}') AND r.state IN ('Pending', 'Claimable') AND r.state = 'Pending'
        AND r.claimable_at <= clock.now
    ) OR EXISTS (
      SELECT 1 FROM vault_balances v JOIN rewards r ON r.integrator_id = v.integrator_id AND r.user_id = ${userId}
        AND r.asset = v.asset AND r.state = 'AwaitingFunding' AND r.creation <= v.assigned_to
      WHERE v.integrator_id = ${integratorId} AND v.assigned > 0
    ) OR EXISTS (
      SELECT 1 FROM clock, vault_balances v JOIN user_balances b ON b.integrator_id = v.integrator_id
        AND b.asset = v.asset AND b.owed > 0
      JOIN rewards r ON r.integrator_id = b.integrator_id AND r.user_id = b.user_id AND r.asset = b.asset
        AND r.state = 'AwaitingFunding' AND r.creation <= v.assigned_to
      WHERE v.integrator_id = ${integratorId} AND v.assigned > 0 AND r.claimable_at <= clock.now
    ) OR EXISTS (
      SELECT 1 FROM clock, user_balances b JOIN rewards r ON r.integrator_id = b.integrator_id
        AND r.user_id = b.user_id AND r.asset = b.asset AND r.state IN ('Pending', 'Claimable') AND r.state = 'Pending'
      WHERE b.integrator_id = ${integratorId} AND b.owed > 0 AND r.claimable_at <= clock.now
    ) AS due`
  return row?.due === true
})

const decodeReward = Schema.decodeSync(Reward)

const list = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId, page: Page) {
  const before = page.cursor === undefined ? undefined : yield* readCursor(page.cursor)
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Ledger.RewardRow>`
    SELECT * FROM rewards WHERE integrator_id = ${integratorId} AND user_id = ${userId}
      AND creation < ${value.int8(before ?? 2n ** 63n - 1n)}
    ORDER BY creation DESC LIMIT ${value.int4(page.limit + 1)}`
  const shown = rows.slice(0, page.limit)
  const last = shown.at(-1)
  const rewards = shown.map((row) => decodeReward(encodeReward(row)))
  return rows.length > page.limit && last !== undefined ? { rewards, next: printCursor(last.creation) } : { rewards }
})

const printCursor = (creation: bigint): string => `r${creation.toString(36)}`

const readCursor = (cursor: string) => {
  const digits = /^r([0-9a-z]{1,12})$/.exec(cursor)?.[1]
  return digits === undefined
    ? Effect.fail(new InvalidRequest({ part: "query", message: "cursor: expected the `next` of an earlier page" }))
    : Effect.succeed([...digits].reduce((sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)), 0n))
}

const balance = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Record<keyof Omit<UserBalance["balances"][number], "asset">, bigint> & { asset: Asset }>`
    SELECT a.asset, coalesce(e.expected, 0) AS expected, coalesce(b.pending, 0) AS pending,
      coalesce(b.claimable, 0) AS claimable, coalesce(b.paid, 0) AS paid, coalesce(b.owed, 0) AS owed,
      coalesce(b.awaiting_funding, 0) AS awaiting_funding
    FROM users u CROSS JOIN (VALUES ('USDC'), ('EURe')) AS a(asset)
    LEFT JOIN user_balances b ON b.integrator_id = u.integrator_id AND b.user_id = u.user_id AND b.asset = a.asset
    LEFT JOIN expected_balances e ON e.integrator_id = u.integrator_id AND e.user_id = u.user_id AND e.asset = a.asset
    WHERE u.integrator_id = ${integratorId} AND u.user_id = ${userId}`
  if (rows.length === 0) return yield* NotFound.of("user", userId)
  return { userId, balances: assets.flatMap((asset) => rows.filter((row) => row.asset === asset)) }
})
