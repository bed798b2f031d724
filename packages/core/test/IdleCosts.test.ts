import { value } from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { Integrators } from "@card-rewards/core/Integrators"
import { JournalSeals } from "@card-rewards/core/JournalSeals"
import { Processing } from "@card-rewards/core/Processing"
import { slotCount } from "@card-rewards/core/Slots"
import { Vault } from "@card-rewards/core/Vault"
import * as Vitals from "@card-rewards/core/Vitals"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { addEvents, addIntegrators, storeClearings } from "./ManyIntegrators.ts"
import { measured } from "./Reads.ts"
import { liveMoneyLayer } from "./Spending.ts"

const services = Deliveries.layer.pipe(
  Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
  Layer.provideMerge(liveMoneyLayer)
)

const integrators = 10_000
const active = 10
/** What a statement of vitals reads to see that no slots are moved, for each of its tables. */
const slotRows = 3 * slotCount

/** Leases endpoints with work and reads their events, and looks for deleted endpoints. */
const deliver = Effect.gen(function*() {
  const { lease, purge, read } = yield* Deliveries
  const now = yield* Clock.currentTimeMillis
  const leased = yield* lease({ worker: "test", now, until: now + 30_000, limit: 64 })
  yield* purge(now)
  const requests = leased.map((one) => ({ ...one, after: one.cursor, events: 48, retries: 24, maxBytes: 1_000_000 }))
  const readings = yield* read(requests, now)
  return readings.reduce((count, { events }) => count + events.length, 0)
})

/** Every step that a worker repeats without work, except those that read all vaults, of which tests are below. */
const steps = {
  "Vitals.read": Effect.map(Vitals.read, ({ pendingDeliveries, storedEvents }) => pendingDeliveries + storedEvents),
  "Deliveries": deliver,
  "Processing.processEvents": Effect.flatMap(Processing, ({ processEvents }) => processEvents),
  "Processing.matureRewards": Effect.flatMap(Processing, ({ matureRewards }) => matureRewards)
}

type Needs = SqlClient.SqlClient | Deliveries | Processing

layer(services, { excludeTestServices: true })("the worker's steps beside 10,000 integrators", (it) => {
  it.effect("cost nothing for integrators without work, and little for each of the ten with work", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const checkIdle = Effect.forEach(Object.entries(steps), Effect.fnUntraced(function*([name, step]) {
        const [found, { pages, rows }] = yield* measured<number, unknown, Needs>(step)
        assert.strictEqual(found, 0, name)
        assert.isAtMost(rows, 10, name)
        assert.isAtMost(pages, 60, name) // mostly read to make the plans
      }), { discard: true })
      yield* sql.withTransaction(Effect.gen(function*() {
        // makes and caches the plans while no integrator exists
        for (let time = 0; time < 10; time++) yield* checkIdle
        yield* addIntegrators(integrators)
        yield* checkIdle
      }))
      // what became of retries is kept, and read by no step
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, revision,
          created_at)
        SELECT 'many-' || n, 1, 1, 2, n, 'exhausted', 13, 1, now() FROM generate_series(1, 10000) n`
      yield* sql`ANALYZE`
      yield* checkIdle

      yield* storeClearings(active)
      yield* addEvents(active)
      // the oldest event belongs to an integrator whose sandbox clock is a day ahead
      const ahead = `many-${active}`
      yield* sql`UPDATE integrators SET clock_offset_millis = 86400000 WHERE integrator_id = ${ahead}`
      yield* sql`UPDATE spend_events SET received_at = received_at + interval '1 day' WHERE integrator_id = ${ahead}`
      yield* sql`INSERT INTO quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
        SELECT 'many-' || n, CASE n WHEN 1 THEN 'locked' ELSE 'failing' END, 'it failed', 1, now(), now()
        FROM generate_series(1, 3) n`
      const [vitals, reads] = yield* measured(Vitals.read)
      assert.deepInclude(vitals, {
        storedEvents: active,
        pendingDeliveries: active,
        quarantined: { behind: 0, failing: 2, locked: 1 }
      })
      for (const age of [vitals.oldestStoredMillis, vitals.deliveryLagMillis]) {
        assert.isAtLeast(age, active * 60_000)
        assert.isAtMost(age, (active + 5) * 60_000)
      }
      assert.isAtMost(reads.rows, 10 * active + slotRows)
      assert.isAtMost(reads.pages, 40 * active)
      const [delivered, work] = yield* measured(deliver)
      assert.strictEqual(delivered, active)
      assert.isAtMost(work.rows, 20 * active)
      assert.isAtMost(work.pages, 60 * active)
      yield* sql`DELETE FROM quarantine`
      const [units, processed] = yield* measured(steps["Processing.processEvents"])
      assert.strictEqual(units, active)
      assert.isAtMost(processed.rows, 40 * active)
      assert.isAtMost(processed.pages, 200 * active)
    }))

  it.effect("read each vault and its last seal in a pass of sealing, which is made twice a minute", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { sealNext } = yield* JournalSeals
      const pass = Effect.repeat(sealNext, { while: (more) => more })
      // 20 seals each, of which a pass reads one
      yield* sql`UPDATE vaults SET entries = 20 WHERE integrator_id LIKE 'many-%'`
      yield* sql`INSERT INTO journal_seals (integrator_id, seal, from_entry, to_entry, sealed_at, previous_hash, hash)
        SELECT 'many-' || n, s, s, s, now(), decode(repeat('00', 32), 'hex'), sha256('')
        FROM generate_series(1, ${value.int4(integrators)}) n, generate_series(1, 20) s`
      yield* sql`ANALYZE journal_seals`
      const [, reads] = yield* measured(pass)
      // two rows of vaults, by the index, and two of seals
      assert.isAtLeast(reads.rows, 2 * integrators)
      assert.isAtMost(reads.rows, 4 * integrators + 100)
      assert.isAtMost(reads.pages, 7 * integrators)
      const [sealed] = yield* sql<{ count: number }>`SELECT count(*)::int4 AS count FROM journal_seals`
      assert.strictEqual(sealed?.count, 20 * integrators)
    }))

  it.effect("read the money of all vaults, but only the rewards that wait and the users who owe", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [before] = yield* measured(Vitals.readMoney)
      assert.deepStrictEqual(before.map(({ asset }) => asset), ["USDC", "EURe"])
      const integratorId = IntegratorId.make("with-money")
      yield* (yield* Integrators).create(integratorId)
      yield* (yield* Vault).deposit(integratorId, {
        reference: Reference.make("d"),
        amount: { asset: "USDC", amount: 5n }
      })
      const finished = 20_000
      yield* sql`INSERT INTO rewards (integrator_id, user_id, kind, external_transaction_id, program_id,
          program_version, creation, asset, state, purchase_at, currency, spend, refunded_spend, earned, amount, paid,
          recovered, clawed_back, month_used_before, category_used_before, claimable_at, created_at, updated_at,
          revision)
        SELECT ${integratorId}, 'ann', 'clearing', n::text, 'p', 1, n, 'USDC',
          CASE n WHEN 7 THEN 'AwaitingFunding' ELSE 'Pending' END, now(), 'USD', 100, 0, 3, 3, 0, 0, 0, 0, 0, now(),
          now(), now(), 1 FROM generate_series(1, ${value.int4(finished)}) n`
      yield* sql`INSERT INTO user_balances (integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid,
          owed)
        SELECT ${integratorId}, 'user-' || n, 'EURe', 0, 0, 0, 7, CASE n WHEN 7 THEN 7 ELSE 0 END
        FROM generate_series(1, ${value.int4(finished)}) n`
      const [[usdc, eure], reads] = yield* measured(Vitals.readMoney)
      const of = (asset: Asset) => before.find((one) => one.asset === asset) ?? assert.fail(asset)
      const { free, held } = of("USDC")
      assert.deepStrictEqual(usdc, { ...of("USDC"), held: held + 5n, free: free + 5n, awaitingFunding: 3n })
      assert.deepStrictEqual(eure, { ...of("EURe"), owed: 7n })
      assert.isAtMost(reads.rows, 2 * (integrators + 1) + 100 + slotRows)
    }))
})
