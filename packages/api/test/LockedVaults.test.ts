import { clearing, enroll, moveMoney, publish, setClock, spend } from "@card-rewards/testing/Requests"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { until } from "@card-rewards/testing/Polling"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"

/** A new integrator with a user whose reward is due. */
const withDueReward = Effect.fnUntraced(function*(name: string) {
  const integrator = yield* newIntegrator(name)
  const { integratorId, send } = integrator
  const purchase = { integratorId, userId: "u", occurredAt: "2100-01-01T00:00:00.000Z" }
  const funds = moveMoney("deposits", "d", "50000000")
  const requests = [enroll("u"), publish("p", 1), setClock(purchase.occurredAt), funds, spend(purchase)]
  yield* Effect.forEach(requests, (request) => send(...request))
  yield* processAll
  yield* send(...setClock("2100-02-01T00:00:00.000Z"))
  return integrator
})

/** The sessions that wait for a lock, seen from a transaction. */
const waiting = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.andThen(
    sql`SELECT pg_stat_clear_snapshot()`,
    sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  ))

layer(TestApi.withProcessing(), { excludeTestServices: true })("integrators with locked vaults", (it) => {
  const deposits = ["d1", "d2", "d3", "d4"].map((reference) => moveMoney("deposits", reference, "1"))

  it.effect("leave connections for what others post and read", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const locked = yield* Effect.forEach(["one", "two", "three"], withDueReward)
      yield* api.send("PUT", "/v1/users/ann", { json: {} })
      const fibers = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SELECT FROM vaults WHERE integrator_id IN ('one', 'two', 'three') FOR UPDATE`
        const requests = locked.flatMap(({ send }) =>
          [["GET", "/v1/users/u/balance"] as const, ...deposits].map((request) => send(...request)))
        const fibers = yield* Effect.forEach(requests, (request) => Effect.forkChild(request))
        yield* until("sessions that wait", waiting, (sessions) => sessions.length >= 3)
        const posted = yield* api.send("POST", "/v1/spend-events", { json: clearing() })
        const read = yield* api.send("GET", "/v1/users/ann/balance")
        assert.deepStrictEqual([posted.status, read.status], [202, 200])
        assert.lengthOf(yield* waiting, 3)
        return fibers
      }))
      yield* Fiber.joinAll(fibers)
    }))

  it.effect("wait for each of them with one connection, and leave handlers for others", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const { send } = yield* newIntegrator("alone")
      yield* send(...enroll("ann"))
      const fibers = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SELECT FROM vaults WHERE integrator_id = 'alone' FOR UPDATE`
        const fibers = yield* Effect.forEach(deposits, (request) => Effect.forkChild(send(...request)))
        yield* until("sessions that wait", waiting, (sessions) => sessions.length >= 1)
        const others = yield* api.send("GET", "/v1/programs")
        const own = yield* send("GET", "/v1/users/ann/rewards")
        assert.deepStrictEqual([others.status, own.status], [200, 200])
        assert.lengthOf(yield* waiting, 1)
        return fibers
      }))
      const answers = yield* Fiber.joinAll(fibers)
      assert.deepStrictEqual(answers.map(({ status }) => status), [200, 200, 200, 200])
    }))

  it.effect("have explanations, which may read many refunds, computed over one connection", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId, send } = yield* withDueReward("explained")
      const path = `/v1/users/u/rewards/rw:${integratorId}:u:clearing:t1:p/explanation`
      assert.strictEqual((yield* send("GET", path)).status, 200)
      const fibers = yield* sql.withTransaction(Effect.gen(function*() {
        // where recoveries are read
        yield* sql`LOCK TABLE journal IN ACCESS EXCLUSIVE MODE`
        const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(send("GET", path)))
        yield* until("sessions that wait", waiting, (sessions) => sessions.length >= 1)
        assert.strictEqual((yield* send("GET", "/v1/users/u/rewards")).status, 200)
        assert.lengthOf(yield* waiting, 1)
        return fibers
      }))
      assert.deepStrictEqual((yield* Fiber.joinAll(fibers)).map(({ status }) => status), [200, 200, 200])
    }))
})
