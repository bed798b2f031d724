import { Audit } from "@card-rewards/core/Audit"
import { value } from "@card-rewards/core/Database"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { dayMillis } from "@card-rewards/domain/Time"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { liveLayer } from "./TestLayer.ts"

const services = Layer.merge(Audit.layer, WebhookEndpoints.layer({ allowPrivateNetwork: true })).pipe(
  Layer.provideMerge(liveLayer)
)

const weekMillis = 7 * dayMillis

/** The Monday of the week of some weeks ago, at 0:00 UTC; 1970 began on a Thursday. */
const monday = Effect.fnUntraced(function*(weeksAgo: number) {
  const sinceMonday = ((yield* Clock.currentTimeMillis) + 3 * dayMillis) % weekMillis
  return (yield* Clock.currentTimeMillis) - sinceMonday - weeksAgo * weekMillis
})

/** An integrator whose endpoint has passed events that were stored at these times, and delivered at once. */
const delivered = Effect.fnUntraced(function*(name: string, times: ReadonlyArray<number>) {
  const integratorId = IntegratorId.make(name)
  const sql = yield* SqlClient.SqlClient
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* WebhookEndpoints).create(integratorId, { id: EndpointId.make("hook"), url: "http://127.0.0.1:9/" })
  for (const [index, time] of times.entries()) {
    const [event, at] = [value.int4(index + 1), value.timestamptz(time)]
    yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
      VALUES (${integratorId}, ${event}, 'evt_' || ${event}, 'webhook.ping', ${at}, ${at}, '{}')`
    yield* sql`INSERT INTO delivery_attempts (integrator_id, event, round, attempt, at, duration_millis, status)
      VALUES (${integratorId}, ${event}, 1, 1, ${at} + interval '10 ms', 1, 200)`
  }
  const count = value.int4(times.length)
  yield* sql`UPDATE vaults SET events = ${count} WHERE integrator_id = ${integratorId}`
  yield* sql`UPDATE webhook_endpoints SET cursor = ${count} WHERE integrator_id = ${integratorId}`
})

/** The events that the audit finds, once the attempts with these numbers are gone. */
const without = Effect.fnUntraced(function*(name: string, events: ReadonlyArray<number>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM delivery_attempts WHERE integrator_id = ${name}
    AND event IN (${sql.literal(events.join())})`
  const { findings } = yield* (yield* Audit).run
  return findings.map(({ integratorId, subject }) => `${integratorId} ${subject}`).sort()
})

layer(services, { excludeTestServices: true })("the audit of attempts", (it) => {
  it.effect("finds nothing of those that an integrator's earlier cell had removed, and all others", () =>
    Effect.gen(function*() {
      const oldest = yield* monday(13)
      // four in the oldest week that the cell has, two in the next one
      const times = [1, 2, 3, 4, 8, 9].map((day) => oldest + day * dayMillis)
      yield* delivered("stays", times)
      yield* delivered("moved", times)
      assert.deepStrictEqual(yield* without("moved", [1, 2, 3, 4]), [])
      assert.deepStrictEqual(yield* without("stays", [3]), ["stays event 3"])
      assert.deepStrictEqual(yield* without("moved", [6]), ["moved event 6", "stays event 3"])
      // nothing is left of it: the week after the oldest one is there
      assert.deepStrictEqual(yield* without("moved", [5]), ["moved event 5", "moved event 6", "stays event 3"])
    }))
})

layer(services, { excludeTestServices: true })("the audit of a new cell", (it) => {
  it.effect("finds events that an endpoint was never sent from the first one on", () =>
    Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      yield* delivered("sent", [now - 7_200_000])
      yield* delivered("skipped", [now - 3_600_000])
      assert.deepStrictEqual(yield* without("skipped", [1]), ["skipped event 1"])
    }))
})
