import { Events } from "@card-rewards/core/Events"
import { Integrators } from "@card-rewards/core/Integrators"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { measured } from "./Reads.ts"
import { liveMoneyLayer } from "./Spending.ts"

const services = Events.layer.pipe(Layer.provideMerge(liveMoneyLayer))

layer(services, { excludeTestServices: true })("the cost of reads", (it) => {
  it.effect("a page of a rare kind costs as much as it holds, among however many events of other kinds", () =>
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
        // plans are made and kept while there is next to nothing
        for (let time = 0; time < 10; time++) yield* Effect.andThen(rare(0n), all(0n))
        yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
          SELECT integrator_id, n, 'evt_' || n,
            CASE WHEN n IN (20000, 40000, 45000) THEN kind ELSE 'reward.pending' END, created_at, body
          FROM events, generate_series(2, ${sql.literal(`${count}`)}) n WHERE integrator_id = ${integratorId}`
        yield* sql`UPDATE vaults SET events = ${sql.literal(`${count}`)} WHERE integrator_id = ${integratorId}`
        const [pages, reads] = yield* read
        assert.deepStrictEqual(pages, expected)
        assert.isAtMost(reads.rows, 20)
        assert.isAtMost(reads.pages, 40)
      }))

      // the planner knows that nearly all are of the other kind, or knows nothing
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
})
