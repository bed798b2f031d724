import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Secrets } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { secretsKeys } from "@card-rewards/testing/Secrets"
import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import { Connector, type ConnectorOptions } from "@card-rewards/worker/Connector"
import { NodeCrypto } from "@effect/platform-node"
import { Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"

export interface Options {
  readonly connector?: ConnectorOptions
  /** How the database is reached. */
  readonly through?: (url: Redacted.Redacted) => Redacted.Redacted
}

const open = { allowPrivateNetwork: true }

/** All that a dispatcher needs, on a database of its own. */
export const services = ({ connector = open, through = (url) => url }: Options = {}) =>
  Layer.unwrap(Effect.gen(function*() {
    const url = yield* TestDatabase.makeMigrated(Database.migrate)
    return Layer.mergeAll(Deliveries.layer, Connector.layer(connector), DeliveryLog.layer).pipe(
      Layer.provideMerge(WebhookEndpoints.layer(connector)),
      Layer.provide(Secrets.layer({ keys: secretsKeys })),
      Layer.provideMerge(Database.layer({ url: through(url), poolSize: 6, applicationName: "test" })),
      Layer.provideMerge(NodeCrypto.layerMac)
    )
  }))

/** A new integrator with an endpoint. Returns its secret. */
export const endpoint = Effect.fnUntraced(function*(name: string, url: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt)
    VALUES (${name}, now(), '0123456789abcdef')`
  yield* sql`INSERT INTO lanes (integrator_id, lane) SELECT ${name}, lane FROM generate_series(0, 15) AS lane`
  yield* sql`INSERT INTO vaults (integrator_id, vault_id) VALUES (${name}, 'sandbox')`
  yield* sql`INSERT INTO vault_balances (integrator_id, asset, held, free)
    SELECT ${name}, asset, 0, 0 FROM unnest(ARRAY['USDC', 'EURe']) AS asset`
  const endpoints = yield* WebhookEndpoints
  const created = yield* endpoints.create(IntegratorId.make(name), { id: EndpointId.make("hook"), url })
  return WebhookSecret.make(created.secret ?? "")
})

interface EventOptions {
  /** The reward of each event is its number modulo this; none where absent. */
  readonly rewards?: number
  /** Characters that each body is longer by. */
  readonly size?: number
  /** When they were stored, in milliseconds; a minute ago where absent. */
  readonly storedAt?: number
}

/** Stores the next `count` events of an integrator, as its vault does. Each body has the event's number. */
export const events = Effect.fnUntraced(function*(name: string, count: number, options: EventOptions = {}) {
  const { rewards = 0, size = 0, storedAt = Date.now() - 60_000 } = options
  const filler = size === 0 ? "" : `,"filler":"${"x".repeat(size)}"`
  const sql = yield* SqlClient.SqlClient
  const at = Database.value.timestamptz(storedAt)
  yield* sql.withTransaction(Effect.gen(function*() {
    yield* sql`WITH numbers AS (
        UPDATE vaults SET events = events + ${Database.value.int4(count)} WHERE integrator_id = ${name}
        RETURNING events - ${Database.value.int4(count)} AS last
      )
      INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body, reward)
      SELECT ${name}, n, 'evt_0123456789abcdef' || lpad(to_hex(n), 12, '0'), 'webhook.ping',
        ${at} + n * interval '1 ms', ${at},
        format('{"n":%s,"é":"ü"%s}', n, ${filler}::text), n % nullif(${Database.value.int4(rewards)}, 0)
      FROM numbers, generate_series(last + 1, last + ${Database.value.int4(count)}) AS n`
    yield* sql`UPDATE webhook_endpoints SET work_at = ${at}
      WHERE integrator_id = ${name} AND deleted_at IS NULL AND worker IS NULL`
  }))
})

/** Stores the next event of an integrator, of a reward or of none. */
export const event = Effect.fnUntraced(function*(name: string, reward?: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.withTransaction(Effect.andThen(
    events(name, 1),
    sql`UPDATE events SET reward = ${Database.value.int8(reward === undefined ? null : BigInt(reward))},
        kind = ${reward === undefined ? "webhook.ping" : "reward.pending"}
      WHERE integrator_id = ${name} AND event = (SELECT events FROM vaults WHERE integrator_id = ${name})`
  ))
})

/** The state and the number of recorded attempts of each event's first delivery, in order of the events. */
export const states = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ state: string; attempts: number }>`
    SELECT CASE WHEN r.state = 'open' OR r.state IS NULL AND v.event > e.cursor THEN 'pending'
      ELSE coalesce(r.state, 'delivered') END AS state,
      (SELECT count(*)::int4 FROM delivery_attempts a WHERE a.integrator_id = v.integrator_id AND a.event = v.event
        AND a.round = 1) AS attempts
    FROM events v JOIN webhook_endpoints e ON e.integrator_id = v.integrator_id AND e.deleted_at IS NULL
    LEFT JOIN retries r ON r.integrator_id = v.integrator_id AND r.generation = e.generation AND r.event = v.event
      AND r.round = 1
    ORDER BY v.integrator_id, v.event`
})

/** Whether nothing is to be delivered. */
export const allDelivered = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return (yield* sql`${sql.literal(undelivered)}`).length === 0
})
