import { Audit } from "@card-rewards/core/Audit"
import { Statements } from "@card-rewards/core/Statements"
import { Vault } from "@card-rewards/core/Vault"
import { type IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { dayMillis } from "@card-rewards/domain/Time"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { measured } from "./Reads.ts"
import { moneyLayer } from "./Spending.ts"
import { newIntegrator, startMillis } from "./TestLayer.ts"

const deposit = Effect.fnUntraced(function*(integratorId: IntegratorId, reference: string, amount: bigint) {
  yield* (yield* Vault).deposit(integratorId, {
    reference: Reference.make(reference),
    amount: { asset: "USDC", amount }
  })
})

const read = Effect.fnUntraced(function*(integratorId: IntegratorId, from: string, to: string) {
  const { closing, days, opening } = yield* (yield* Statements).get(integratorId, { asset: "USDC", from, to })
  return {
    opening: opening.held,
    closing: closing.held,
    days: days.map(({ closing, date, deposits }) => [date, deposits, closing.held] as const)
  }
})

layer(moneyLayer)("a statement", (it) => {
  it.effect.each([0n, 1n])("includes what began to move money on a day that has ended, after %d of that day", (early) =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      if (early > 0n) yield* deposit(integratorId, "early", early)
      const sql = yield* SqlClient.SqlClient
      const moved = yield* Deferred.make<void>()
      const end = yield* Deferred.make<void>()
      yield* TestClock.setTime(startMillis + dayMillis / 2 - 1)
      const moving = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* deposit(integratorId, "late", 5n)
        yield* Deferred.succeed(moved, undefined)
        yield* Deferred.await(end)
      })))
      yield* Deferred.await(moved)
      yield* TestClock.adjust(1)
      const reading = yield* Effect.forkChild(read(integratorId, "2026-11-01", "2026-11-01"))
      yield* Effect.raceFirst(TestClock.withLive(untilBlocked), Fiber.await(reading))
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(moving)
      const day = 5n + early
      const expected = { opening: 0n, closing: day, days: [["2026-11-01", day, day] as const] }
      assert.deepStrictEqual(yield* Fiber.join(reading), expected)
      // by a process whose clock is behind
      yield* TestClock.setTime(startMillis)
      yield* deposit(integratorId, "behind", 7n)
      assert.deepStrictEqual(yield* read(integratorId, "2026-11-01", "2026-11-01"), expected)
      assert.deepStrictEqual(yield* read(integratorId, "2026-11-02", "2026-12-31"), {
        opening: day,
        closing: day + 7n,
        days: [["2026-11-02", 7n, day + 7n]]
      })
      assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
    }))

  it.effect("ends a day also where that one ended while the day before was being ended", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      yield* TestClock.setTime(startMillis)
      yield* deposit(integratorId, "first", 1n)
      const sql = yield* SqlClient.SqlClient
      const [isLocked, end] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const locking = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`LOCK TABLE vault_days IN SHARE MODE`
        yield* Deferred.succeed(isLocked, undefined)
        yield* Deferred.await(end)
      })))
      yield* Deferred.await(isLocked)
      yield* TestClock.setTime(startMillis + 1.5 * dayMillis - 1)
      const statement = read(integratorId, "2026-11-01", "2026-11-02")
      const reading = yield* Effect.forkChild(statement)
      yield* Effect.raceFirst(TestClock.withLive(untilBlocked), Fiber.await(reading))
      yield* TestClock.adjust(1)
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(locking)
      const shown = yield* Fiber.join(reading)
      assert.deepStrictEqual(shown.days, [["2026-11-01", 1n, 1n], ["2026-11-02", 0n, 1n]])
      // by a process whose clock is behind
      yield* TestClock.setTime(startMillis + dayMillis)
      yield* deposit(integratorId, "behind", 7n)
      assert.deepStrictEqual(yield* statement, shown)
    }))

  it.effect("has every day of its range, at a cost that grows with these days alone", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      const sql = yield* SqlClient.SqlClient
      yield* deposit(integratorId, "first", 1n)
      const today = startMillis / dayMillis - 0.5
      yield* sql`INSERT INTO vault_days (integrator_id, asset, day, free, deposits)
        SELECT ${integratorId}, asset, ${sql.literal(`${today}`)} - ago, 10000 - ago, 10000 - ago
        FROM unnest(ARRAY['USDC', 'EURe']) asset, generate_series(1, 5000) ago WHERE ago % 10 > 0`
      yield* sql`UPDATE vault_balances SET free = 10000, held = 10000, deposits = 10000
        WHERE integrator_id = ${integratorId}`
      yield* sql`ANALYZE vault_days`
      const [year, reads] = yield* measured(read(integratorId, "2025-11-02", "2026-11-01"))
      assert.strictEqual(year.days.length, 365)
      assert.deepStrictEqual([year.opening, year.closing], [9_635n, 10_000n])
      assert.deepStrictEqual(year.days.slice(-3), [
        ["2026-10-30", 1n, 9_998n],
        ["2026-10-31", 1n, 9_999n],
        ["2026-11-01", 1n, 10_000n]
      ])
      assert.deepStrictEqual(year.days.find(([date]) => date === "2026-10-22"), ["2026-10-22", 0n, 9_989n])
      assert.isAtMost(reads.rows, 365 + 20)
      yield* sql`DELETE FROM vault_days WHERE integrator_id = ${integratorId}`
      yield* sql`UPDATE vault_balances SET free = deposits - 9999, held = deposits - 9999, deposits = deposits - 9999
        WHERE integrator_id = ${integratorId} AND asset = 'USDC'`
      yield* sql`UPDATE vault_balances SET free = 0, held = 0, deposits = 0
        WHERE integrator_id = ${integratorId} AND asset = 'EURe'`
    }))
})

/** Waits until some session waits for a lock. */
const untilBlocked = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const blocked = sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  yield* Effect.repeat(Effect.delay(blocked, 10), { until: (rows) => rows.length > 0 })
})
