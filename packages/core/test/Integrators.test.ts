import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Environment } from "../src/Environment.ts"
import { Integrators } from "../src/Integrators.ts"
import { setSlot } from "./SlotState.ts"
import { newIntegrator, pairRuns, startMillis, testLayer } from "./TestLayer.ts"

it.layer(testLayer)("Integrators", (it) => {
  it.effect("a new integrator has its lanes, an empty vault and one key named default", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const integratorId = yield* newIntegrator
      const rows = yield* sql`SELECT
        (SELECT array_agg(lane::int ORDER BY lane) FROM lanes WHERE integrator_id = i.integrator_id) AS lanes,
        (SELECT vault_id FROM vaults WHERE integrator_id = i.integrator_id) AS vault,
        (SELECT count(*)::int FROM vault_balances
          WHERE integrator_id = i.integrator_id AND held = 0 AND free = 0) AS balances,
        (SELECT array_agg(name) FROM api_keys WHERE integrator_id = i.integrator_id) AS keys
        FROM integrators i WHERE integrator_id = ${integratorId}`
      assert.deepStrictEqual(rows[0], {
        lanes: Array.from({ length: 16 }, (_, lane) => lane),
        vault: "sandbox",
        balances: 2,
        keys: ["default"]
      })
    }))

  it.effect("in production the vault is production and the key is live", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const integrators = yield* Integrators
      const { apiKey, integratorId } = yield* integrators.create(IntegratorId.make("live"))
      assert.match(Redacted.value(apiKey), /^service_sk_live_[0-9a-f]{64}$/)
      const rows = yield* sql`SELECT vault_id FROM vaults WHERE integrator_id = ${integratorId}`
      assert.deepStrictEqual(rows, [{ vaultId: "production" }])
    }).pipe(Effect.provide(Layer.fresh(Integrators.layer).pipe(Layer.provide(Environment.layer("production"))))))

  it.effect("one of two concurrent creations makes the integrator, the other fails with IntegratorExists", () =>
    Effect.gen(function*() {
      const integrators = yield* Integrators
      for (let run = 0; run < pairRuns; run++) {
        const create = Effect.result(integrators.create(IntegratorId.make(`pair-${run}`)))
        const results = yield* Effect.all([create, create], { concurrency: 2 })
        const tags = results.map((result) => result._tag === "Success" ? "made" : result.failure._tag)
        assert.deepStrictEqual(tags.sort(), ["IntegratorExists", "made"])
      }
    }))

  it.effect("a repeated suspension or resumption changes nothing", () =>
    Effect.gen(function*() {
      const integrators = yield* Integrators
      const integratorId = yield* newIntegrator
      const suspended = yield* integrators.suspend(integratorId)
      assert.strictEqual(suspended.suspendedAt, startMillis)
      yield* TestClock.adjust(1_000)
      assert.deepStrictEqual(yield* integrators.suspend(integratorId), suspended)
      assert.isTrue(
        (yield* integrators.list).some((one) => one.integratorId === integratorId && one.suspendedAt === startMillis)
      )
      const resumed = yield* integrators.resume(integratorId)
      assert.isFalse("suspendedAt" in resumed)
      assert.deepStrictEqual(yield* integrators.resume(integratorId), resumed)
    }))

  it.effect("an integrator of a slot that the cell does not own is unavailable, not unknown", () =>
    Effect.gen(function*() {
      const integrators = yield* Integrators
      const integratorId = yield* newIntegrator
      yield* setSlot(integratorId, "leaving")
      assert.strictEqual((yield* Effect.flip(integrators.suspend(integratorId)))._tag, "Unavailable")
      assert.strictEqual((yield* Effect.flip(integrators.resume(integratorId)))._tag, "Unavailable")
      yield* setSlot(integratorId, "owned")
    }))

  it.effect("an unknown integrator fails with IntegratorNotFound", () =>
    Effect.gen(function*() {
      const integrators = yield* Integrators
      const unknown = IntegratorId.make("unknown")
      assert.strictEqual((yield* Effect.flip(integrators.suspend(unknown)))._tag, "IntegratorNotFound")
      assert.strictEqual((yield* Effect.flip(integrators.resume(unknown)))._tag, "IntegratorNotFound")
      assert.strictEqual((yield* Effect.flip(integrators.requireExisting(unknown)))._tag, "IntegratorNotFound")
    }))
})
