import { value } from "@card-rewards/core/Database"
import { Deliveries, type Leased } from "@card-rewards/core/Deliveries"
import { Integrators } from "@card-rewards/core/Integrators"
import { Processing } from "@card-rewards/core/Processing"
import { Secrets } from "@card-rewards/core/Secrets"
import { slotOf } from "@card-rewards/core/Slots"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { processAll, sealAll } from "@card-rewards/testing/EventProcessing"
import {
  createEndpoint,
  createKey,
  enroll,
  moveMoney,
  publish,
  type Request,
  setClock,
  spend
} from "@card-rewards/testing/Requests"
import { secretsKeys } from "@card-rewards/testing/Secrets"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { endpoints } from "./Declared.ts"
import { fingerprint } from "./Stored.ts"

const now = "2100-01-01T00:00:00.000Z"
const sent = (integratorId: string, externalTransactionId: string) =>
  spend({ integratorId, externalTransactionId, occurredAt: "2099-12-02T00:00:00.000Z" })

/** Something of everything that a request can change. */
const belongings = (integratorId: string): ReadonlyArray<Request> => [
  enroll("ann"),
  publish("p", 1, { holdingPeriodDays: 0 }),
  setClock(now),
  moveMoney("deposits", "d", "9000000"),
  createEndpoint(),
  createKey("k"),
  sent(integratorId, "first")
]

/** A key that is not there may be at the slot's owner. */
const unknownKey = Effect.gen(function*() {
  const key = `service_sk_sandbox_${slotOf("leaving").toString(16).padStart(2, "0")}${"0".repeat(62)}`
  const answer = yield* (yield* TestApi).send("GET", "/v1/events", { key })
  assert.strictEqual(answer.status, 503, answer.text)
})

/** A request of each operation that changes something. */
const changes = (integratorId: string, eventId: string): Readonly<Record<string, Request>> => ({
  "PUT /v1/users/{userId}": enroll("bob"),
  "PUT /v1/programs/{programId}/versions/{version}": publish("p", 2),
  "PUT /v1/sandbox/clock": setClock("2100-02-01T00:00:00.000Z"),
  "POST /v1/spend-events": sent(integratorId, "second"),
  "POST /v1/spend-events/batch": ["POST", "/v1/spend-events/batch", { events: [sent(integratorId, "third")[2]] }],
  "PUT /v1/vault/low-funds/{asset}": ["PUT", "/v1/vault/low-funds/USDC", { threshold: "5" }],
  "DELETE /v1/vault/low-funds/{asset}": ["DELETE", "/v1/vault/low-funds/USDC"],
  "POST /v1/sandbox/deposits": moveMoney("deposits", "d2", "1"),
  "POST /v1/sandbox/withdrawals": moveMoney("withdrawals", "w", "1"),
  "POST /v1/sandbox/claims": moveMoney("claims", "c", "1", { userId: "ann" }),
  "POST /v1/api-keys": createKey("new"),
  "DELETE /v1/api-keys/{name}": ["DELETE", "/v1/api-keys/k"],
  "POST /v1/webhook-endpoints": createEndpoint("other"),
  "PATCH /v1/webhook-endpoints/{id}": ["PATCH", "/v1/webhook-endpoints/e", { url: "https://hooks.example.com/new" }],
  "POST /v1/webhook-endpoints/{id}/rotate-secret": ["POST", "/v1/webhook-endpoints/e/rotate-secret"],
  "POST /v1/webhook-endpoints/{id}/ping": ["POST", "/v1/webhook-endpoints/e/ping"],
  "POST /v1/webhook-endpoints/{id}/deliveries/{eventId}/redeliver": [
    "POST",
    `/v1/webhook-endpoints/e/deliveries/${eventId}/redeliver`
  ],
  "POST /v1/webhook-endpoints/{id}/replays": [
    "POST",
    "/v1/webhook-endpoints/e/replays",
    { from: "2026-01-01T00:00:00Z" }
  ],
  "DELETE /v1/webhook-endpoints/{id}": ["DELETE", "/v1/webhook-endpoints/e"]
})

/** Operations whose method says that they change something, and that do not. */
const reads = new Set(["POST /v1/programs/{programId}/simulations", "POST /v1/users/{userId}/quotes"])

/** An integrator's rows of a table, as text. */
const rowsOf = Effect.fnUntraced(function*(table: string, of: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql.unsafe<{ row: string }>(
    `SELECT to_jsonb(t)::text AS row FROM ${table} t WHERE integrator_id = '${of}'`
  )
  return rows.map(({ row }) => row).toSorted()
})

/** What the worker's steps change. */
const tables = [
  "vaults",
  "lanes",
  "spend_event_queue",
  "rewards",
  "webhook_endpoints",
  "quarantine",
  "events",
  "journal_seals"
]

/** What the holder of leases does with them. */
const holdOn = Effect.fnUntraced(function*(held: ReadonlyArray<Leased>, now: number) {
  const { purge, record, release, renew } = yield* Deliveries
  assert.strictEqual((yield* renew(held, now + 120_000)).renewed.size, 0)
  const nothing = { attempts: [], retries: [], isRepeated: false }
  const attempted = held.map((one) => ({ ...one, ...nothing, cursor: 1n, revision: 1 }))
  assert.strictEqual((yield* record(attempted, now)).stored.size, 0)
  yield* release(held, now)
  yield* purge(now)
})

const services = Deliveries.layer.pipe(
  Layer.provide(WebhookEndpoints.layer({ allowPrivateNetwork: false })),
  Layer.provide(Secrets.layer({ keys: secretsKeys })),
  Layer.provideMerge(TestApi.withProcessing())
)

layer(services, { excludeTestServices: true })("a slot that the cell does not own", (it) => {
  it.effect("has nothing changed by any request or by the worker, and others' slots have", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [leaving, staying] = [yield* newIntegrator("leaving"), yield* newIntegrator("staying")]
      assert.notStrictEqual(slotOf("leaving"), slotOf("staying"))
      for (const { integratorId, send } of [leaving, staying]) {
        for (const request of belongings(integratorId)) {
          assert.isBelow((yield* send(...request)).status, 300, request[1])
        }
      }
      yield* processAll
      for (const { integratorId, send } of [leaving, staying]) yield* send(...sent(integratorId, "waits"))
      const events = yield* leaving.send("GET", "/v1/events")
      const [event] = events.body["events"] as ReadonlyArray<{ readonly id: string }>
      const requests = changes(leaving.integratorId, event?.id ?? "")
      const declared = endpoints.filter(({ method, name }) => method !== "GET" && !reads.has(name))
      assert.sameMembers(Object.keys(requests), declared.map(({ name }) => name))

      // a worker holds its endpoint
      const { lease } = yield* Deliveries
      const real = yield* Clock.currentTimeMillis
      const claim = { worker: "w", now: real + 60_000, until: real + 90_000, limit: 10 }
      const held = (yield* lease(claim)).filter(({ integratorId }) => integratorId === "leaving")
      assert.lengthOf(held, 1)

      yield* sql`DELETE FROM cell_slots WHERE slot = ${value.int4(slotOf("leaving"))}`
      const before = yield* fingerprint
      yield* holdOn(held, real)
      assert.deepStrictEqual(yield* fingerprint, before, "the holder of its endpoint")
      for (const [name, request] of Object.entries(requests)) {
        const answer = yield* leaving.send(...request)
        assert.deepStrictEqual([answer.status, answer.body["_tag"]], [503, "Unavailable"], `${name}: ${answer.text}`)
        assert.match(`${answer.headers["retry-after"]}`, /^[1-9]\d*$/, name)
        assert.deepStrictEqual(yield* fingerprint, before, name)
      }
      yield* unknownKey
      const together = [leaving, staying].map(({ integratorId, send }) => send(...sent(integratorId, "together")))
      const answers = yield* Effect.all(together, { concurrency: 2 })
      assert.deepStrictEqual(answers.map(({ status }) => status), [503, 202])

      const all = (of: string) => Effect.forEach(tables, (table) => rowsOf(table, of))
      const unchanged = yield* all("leaving")
      yield* Effect.andThen(processAll, sealAll)
      assert.lengthOf(yield* rowsOf("journal_seals", "staying"), 1)
      const { matureRewards, processEvents, retryQuarantined } = yield* Processing
      yield* sql`UPDATE vaults SET work_at = '-infinity' WHERE integrator_id IN ('leaving', 'staying')`
      const due = yield* rowsOf("vaults", "leaving")
      for (const step of [processEvents, retryQuarantined, matureRewards, matureRewards]) yield* step
      // a vault that is not owned does not hold up the others
      const left = yield* sql<{ id: string }>`SELECT integrator_id AS id FROM vaults WHERE work_at = '-infinity'`
      assert.deepStrictEqual(left.map(({ id }) => id), ["leaving"])
      assert.deepStrictEqual(yield* all("leaving"), [due, ...unchanged.slice(1)])
      yield* sql`UPDATE webhook_endpoints SET worker = NULL, work_at = '-infinity'`
      const idle = yield* rowsOf("webhook_endpoints", "leaving")
      const leased = yield* lease(claim)
      assert.deepStrictEqual(leased.map(({ integratorId }) => integratorId), ["staying"])
      assert.deepStrictEqual(yield* rowsOf("webhook_endpoints", "leaving"), idle)
      assert.deepStrictEqual(yield* rowsOf("spend_event_queue", "staying"), [])
      assert.lengthOf(yield* rowsOf("spend_event_queue", "leaving"), 1)
      assert.lengthOf(yield* rowsOf("rewards", "staying"), 3)

      const refused = yield* Effect.flip((yield* Integrators).create(IntegratorId.make("leaving")))
      assert.strictEqual(refused._tag, "Unavailable")
      yield* sql`DELETE FROM cell_slots`
      const stored = yield* fingerprint
      const created = yield* Effect.flip((yield* Integrators).create(IntegratorId.make("another")))
      assert.strictEqual(created._tag, "Unavailable")
      assert.deepStrictEqual(yield* fingerprint, stored)
    }))
})
