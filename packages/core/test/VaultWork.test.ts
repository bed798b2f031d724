import { Processing } from "@card-rewards/core/Processing"
import { assert, layer } from "@effect/vitest"
import { Effect, Logger } from "effect"
import { SqlClient } from "effect/sql"
import { addRewards } from "./BulkRewards.ts"
import { ofAnn, pending, setUp, statesOf, workAll } from "./LargeVaults.ts"
import { liveMoneyLayer } from "./Spending.ts"

/** Makes updates of a table fail as on a full disk, also those of no row, while `effect` runs. */
const whileFull = <A, E, R>(table: "rewards" | "vaults", effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql.unsafe(`CREATE OR REPLACE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      RAISE EXCEPTION E'could not extend file\\nhint' USING ERRCODE = '53100'; END $$`)
    yield* sql.unsafe(`CREATE TRIGGER no_space BEFORE UPDATE ON ${table} EXECUTE FUNCTION no_space()`)
    return yield* Effect.ensuring(effect, Effect.ignoreCause(sql.unsafe(`DROP TRIGGER no_space ON ${table}`)))
  })

/** A vault with due work, whose step logs into `lines`. */
const vaultWithWork = Effect.gen(function*() {
  const { integratorId, now } = yield* setUp
  yield* addRewards(integratorId, { ...ofAnn, ...pending, count: 1, claimableAt: now })
  const lines: Array<readonly [level: string, message: string]> = []
  const logger = Logger.make(({ logLevel, message }) => void lines.push([logLevel, `${message}`]))
  const { matureRewards } = yield* Processing
  return { integratorId, lines, step: Effect.provide(matureRewards, Logger.layer([logger])) }
})

layer(liveMoneyLayer, { excludeTestServices: true })("the worker's step on a vault", (it) => {
  it.effect("logs one warning, with what PostgreSQL said, where a failure can end by itself", () =>
    Effect.gen(function*() {
      const { integratorId, lines, step } = yield* vaultWithWork
      assert.strictEqual(yield* whileFull("rewards", step), 1)
      const line = `Background work on the vault of ${integratorId} failed; trying again in 200ms: ` +
        "could not extend file hint (53100)"
      assert.deepStrictEqual(lines, [["Warn", line]])
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE vaults SET work_at = now() - interval '1 s' WHERE integrator_id = ${integratorId}`
      yield* step
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 1 })
    }))

  it.effect("leaves the log line to its loop where the vault cannot be postponed either", () =>
    Effect.gen(function*() {
      const { lines, step } = yield* vaultWithWork
      const error = yield* Effect.flip(whileFull("vaults", step))
      assert.deepStrictEqual([error._tag, lines], ["Unavailable", []])
      yield* step
    }))

  it.effect("follows for each vault where work_at is reset, as after the clocks were set back", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { matureRewards } = yield* Processing
      const [due, later] = [yield* setUp, yield* setUp]
      const laterAt = later.now + 1e9
      yield* addRewards(due.integratorId, { ...ofAnn, ...pending, count: 1, claimableAt: due.now })
      yield* addRewards(later.integratorId, { ...ofAnn, ...pending, count: 1, claimableAt: laterAt })
      yield* sql`UPDATE vaults SET work_at = now() + interval '1 hour'`
      assert.strictEqual(yield* matureRewards, 0)
      yield* sql`UPDATE vaults SET work_at = now() - interval '1 s' WHERE work_at > now()`
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(due.integratorId), { Claimable: 1 })
      const rows = yield* sql<{ workAt: number }>`SELECT work_at FROM vaults
        WHERE integrator_id = ${later.integratorId}`
      assert.deepStrictEqual(rows, [{ workAt: laterAt - 1_000 }])
    }))

  it.effect("logs any other failure as an error", () =>
    Effect.gen(function*() {
      const { integratorId, lines, step } = yield* vaultWithWork
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE user_balances SET pending = 0 WHERE integrator_id = ${integratorId}`
      yield* step
      assert.deepStrictEqual(lines.map(([level]) => level), ["Error"])
    }))
})
