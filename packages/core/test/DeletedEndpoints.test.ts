import { value } from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { measured } from "./Reads.ts"
import { setSlot } from "./SlotState.ts"
import { liveLayer } from "./TestLayer.ts"

const services = Layer.merge(DeliveryLog.layer, Deliveries.layer).pipe(
  Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
  Layer.provideMerge(liveLayer)
)

const id = EndpointId.make("hook")

const setUp = Effect.fnUntraced(function*(name: string) {
  const integratorId = IntegratorId.make(name)
  const sql = yield* SqlClient.SqlClient
  const { create, remove } = yield* WebhookEndpoints
  const { purge } = yield* Deliveries
  yield* (yield* Integrators).create(integratorId)
  return {
    integratorId,
    create: create(integratorId, { id, url: "http://127.0.0.1:9/" }),
    remove: remove(integratorId, id),
    purge: Effect.repeat(Effect.flatMap(Clock.currentTimeMillis, purge), { while: (hasPurged) => hasPurged }),
    rows: sql<{ generation: number; revision: number; round: number; isLive: boolean }>`
      SELECT generation, revision, round, deleted_at IS NULL AS is_live FROM webhook_endpoints
      WHERE integrator_id = ${integratorId} ORDER BY generation`
  }
})

layer(services, { excludeTestServices: true })("endpoints that are created and deleted again and again", (it) => {
  it.effect("number on, and leave one row behind", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { create, integratorId, purge, remove, rows } = yield* setUp("again")
      for (let time = 0; time < 3; time++) {
        yield* create
        // as redeliveries do, and changes of the URL
        yield* sql`UPDATE webhook_endpoints SET round = round + 10, revision = revision + 1
          WHERE integrator_id = ${integratorId} AND deleted_at IS NULL`
        yield* remove
      }
      yield* purge
      assert.deepStrictEqual(yield* rows, [{ generation: 3, revision: 6, round: 31, isLive: false }])
      yield* create
      assert.deepStrictEqual(yield* rows, [
        { generation: 3, revision: 6, round: 31, isLive: false },
        { generation: 4, revision: 7, round: 31, isLive: true }
      ])
    }))

  it.effect("take no replay of the next endpoint with them", () =>
    Effect.gen(function*() {
      const { create, integratorId, purge, remove } = yield* setUp("replayed")
      const { findReplay, ping, startReplay } = yield* DeliveryLog
      yield* create
      yield* ping(integratorId, id)
      yield* remove
      yield* create
      const replay = yield* startReplay(integratorId, id, { from: instant(0) })
      yield* purge
      assert.deepStrictEqual(yield* findReplay(integratorId, id, replay.id), replay)
    }))

  it.effect("keep what they have left while their slot is being moved", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { create, integratorId, purge, remove } = yield* setUp("moving")
      yield* create
      yield* remove
      const isWork = sql`SELECT work_at IS NOT NULL AS is_work FROM webhook_endpoints
        WHERE integrator_id = ${integratorId}`
      yield* setSlot(integratorId, "leaving")
      yield* purge
      assert.deepStrictEqual(yield* isWork, [{ isWork: true }])
      yield* setSlot(integratorId, "owned")
      yield* purge
      assert.deepStrictEqual(yield* isWork, [{ isWork: false }])
    }))

  it.effect("cost the same, however many were there before", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { create, integratorId } = yield* setUp("many")
      yield* sql`INSERT INTO webhook_endpoints
          (integrator_id, generation, endpoint_id, url, revision, first_revision, created_at, deleted_at, start, cursor)
        SELECT ${integratorId}, n, ${id}, 'http://127.0.0.1:9/', n, n, now(), now(), 0, 0
        FROM generate_series(1, ${value.int4(10_000)}) n`
      const [, { rows }] = yield* measured(create)
      assert.isAtMost(rows, 20)
    }))
})
