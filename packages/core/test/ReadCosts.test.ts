import { Backlog } from "@card-rewards/core/Backlog"
import { Events } from "@card-rewards/core/Events"
import { Integrators } from "@card-rewards/core/Integrators"
import { Vault } from "@card-rewards/core/Vault"
import * as Vitals from "@card-rewards/core/Vitals"
import { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { measured } from "./Reads.ts"
import { liveMoneyLayer } from "./Spending.ts"

const services = Layer.mergeAll(Backlog.layer, Events.layer).pipe(Layer.provideMerge(liveMoneyLayer))

layer(services, { excludeTestServices: true })("the cost of reads", (it) => {
  it.effect("a page of a rare kind costs as much as its own events, beside any number of events of other kinds", () =>
    Effect.gen(function*() {
      const integratorId = IntegratorId.make("kinds")
      const sql = yield* SqlClient.SqlClient
      const { list } = yield* Events
      yield* (yield* Integrators).create(integratorId)
      yield* (yield* Vault).deposit(integratorId, {
        reference: Reference.make("d"),
        amount: { asset: "USDC", amount: 5n }
      })
      const rare = (after: bigint) => list(integratorId, { after, limit: 2, kind: "vault.deposit_confirmed" })
      const all = (after: bigint) => list(integratorId, { after, limit: 2 })
      const count = 50_000
      const read = measured(Effect.gen(function*() {
        const first = yield* rare(1n)
        const second = yield* rare(first.next)
        return [first.events.length, first.next, second.events.length, second.next]
      }))
      const expected = [2, 40_000n, 1, BigInt(count)]

      yield* sql.withTransaction(Effect.gen(function*() {
        // makes and caches the plans while the tables are nearly empty
        for (let time = 0; time < 10; time++) yield* Effect.andThen(rare(0n), all(0n))
        yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
          SELECT integrator_id, n, 'evt_' || n,
            CASE WHEN n IN (20000, 40000, 45000) THEN kind ELSE 'reward.pending' END, created_at, created_at, body
          FROM events, generate_series(2, ${sql.literal(`${count}`)}) n WHERE integrator_id = ${integratorId}`
        yield* sql`UPDATE vaults SET events = ${sql.literal(`${count}`)} WHERE integrator_id = ${integratorId}`
        const [pages, reads] = yield* read
        assert.deepStrictEqual(pages, expected)
        assert.isAtMost(reads.rows, 20)
        assert.isAtMost(reads.pages, 40)
      }))

      // with statistics, which say that nearly all events are of the other kind, and without
      for (const statement of [sql`ANALYZE events`, sql`DISCARD PLANS`]) {
        yield* statement
        const [pages, reads] = yield* read
        assert.deepStrictEqual(pages, expected)
        assert.isAtMost(reads.rows, 20)
        assert.isAtMost(reads.pages, 40)
        const [, page] = yield* measured(all(25_000n))
        assert.isAtMost(page.rows, 10)
        assert.isAtMost(page.pages, 20)
      }
    }))
  it.effect("both counts of a backlog stop at 100,000, and read no more rows than that", () =>
    Effect.gen(function*() {
      const integratorId = IntegratorId.make("backlog")
      const sql = yield* SqlClient.SqlClient
      yield* (yield* Integrators).create(integratorId)
      yield* sql`INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
        SELECT ${integratorId}, 0, n, ARRAY['ann'], ARRAY['clearing'], ARRAY['c' || n]
        FROM generate_series(1, 120000) n`
      yield* sql`INSERT INTO spend_event_waits (integrator_id, user_id, original_kind, original_id, occurred_at,
          arrival, kind, external_transaction_id)
        SELECT ${integratorId}, 'ann', 'clearing', 'none', now(), n, 'refund', 'r' || n
        FROM generate_series(1, 99999) n`
      const { size } = yield* Backlog
      assert.deepStrictEqual(yield* size(integratorId), { stored: 100_000, waiting: 99_999 })
      yield* sql`INSERT INTO spend_event_waits (integrator_id, user_id, original_kind, original_id, occurred_at,
          arrival, kind, external_transaction_id)
        SELECT ${integratorId}, 'ann', 'clearing', 'none', now(), n, 'refund', 'r' || n
        FROM generate_series(100000, 120000) n`
      const [backlog, reads] = yield* measured(size(integratorId))
      assert.deepStrictEqual(backlog, { stored: 100_000, waiting: 100_000 })
      assert.isAtMost(reads.rows, 200_100)
    }))

  it.effect("the vitals count at most 100,000 open retries by each index", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, next_attempt_at,
          revision, created_at)
        SELECT 'failing', 1, n, 1, n, 'open', 1, now() + interval '1 day', 1, now() FROM generate_series(1, 120000) n`
      const [{ pendingDeliveries }, reads] = yield* measured(Vitals.read)
      assert.strictEqual(pendingDeliveries, 100_000)
      // an entry and a row of each
      assert.isAtMost(reads.rows, 4 * 100_000 + 1_000)
    }))
})
