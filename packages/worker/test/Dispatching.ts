import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Secrets } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { secretsKeys } from "@card-rewards/testing/Secrets"
import { Connector, type ConnectorOptions } from "@card-rewards/worker/Connector"
import { NodeCrypto } from "@effect/platform-node"
import { Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"

export interface Options {
  readonly retryDelays: RetryDelays
  readonly claimMillis?: number
  readonly connector?: ConnectorOptions
  /** How the database is reached. */
  readonly through?: (url: Redacted.Redacted) => Redacted.Redacted
}

const open = { allowPrivateNetwork: true }

/** All that a dispatcher needs, on a database of its own. */
export const services = ({ claimMillis = 60_000, connector = open, retryDelays, through = (url) => url }: Options) =>
  Layer.unwrap(Effect.gen(function*() {
    const url = yield* TestDatabase.makeMigrated(Database.migrate)
    const delivering = Deliveries.layer({ retryDelays, claimMillis })
    return Layer.mergeAll(delivering, Connector.layer(connector), DeliveryLog.layer).pipe(
      Layer.provideMerge(WebhookEndpoints.layer(connector)),
      Layer.provide(Secrets.layer({ keys: secretsKeys })),
      Layer.provideMerge(Database.layer({ url: through(url), poolSize: 6, applicationName: "test" })),
      Layer.provideMerge(NodeCrypto.layerMac)
    )
  }))

/** A new integrator with an endpoint. Gives its secret. */
export const endpoint = Effect.fnUntraced(function*(name: string, url: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt)
    VALUES (${name}, now(), '0123456789abcdef')`
  yield* sql`INSERT INTO vaults (integrator_id, vault_id) VALUES (${name}, 'sandbox')`
  const endpoints = yield* WebhookEndpoints
  const created = yield* endpoints.create(IntegratorId.make(name), { id: EndpointId.make("hook"), url })
  return WebhookSecret.make(created.secret ?? "")
})

/** Events with a delivery each, due for a minute; the n-th of them has the number n, beginning with `from`. */
export const events = Effect.fnUntraced(function*(
  name: string,
  count: number,
  options: { readonly from?: number; readonly rewards?: number; readonly size?: number } = {}
) {
  const { from = 1, rewards = 0, size = 0 } = options
  const filler = size === 0 ? "" : `,"filler":"${"x".repeat(size)}"`
  const sql = yield* SqlClient.SqlClient
  const numbers = sql`generate_series(${Database.value.int4(from)}, ${Database.value.int4(from + count - 1)}) AS n`
  yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
    SELECT ${name}, n, 'evt_0123456789abcdef' || lpad(to_hex(n), 12, '0'), 'webhook.ping', now(),
      format('{"n":%s,"é":"ü"%s}', n, ${filler}::text)
    FROM ${numbers}`
  yield* sql`INSERT INTO deliveries
      (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at)
    SELECT ${name}, n, 1, 1, n % nullif(${Database.value.int4(rewards)}, 0),
      'pending', now(), now() - interval '1 minute' FROM ${numbers}`
})

/** One such event, of a reward or of none. */
export const event = Effect.fnUntraced(function*(name: string, number: number, reward?: number) {
  const sql = yield* SqlClient.SqlClient
  const id = `evt_0123456789abcdef${number.toString(16).padStart(12, "0")}`
  yield* sql`INSERT INTO events VALUES (${name}, ${BigInt(number)}, ${id}, 'webhook.ping', now(),
    ${`{"n":${number},"é":"ü"}`})`
  const of = Database.value.int8(reward === undefined ? null : BigInt(reward))
  yield* sql`INSERT INTO deliveries
      (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at)
    VALUES (${name}, ${BigInt(number)}, 1, 1, ${of}, 'pending', now(), now() - interval '1 minute')`
})

/** How every delivery is, in order of the events. */
export const states = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ state: string; attempts: number }>`
    SELECT state, attempts FROM deliveries ORDER BY integrator_id, event`
})

/** Whether none is pending. */
export const settled = Effect.map(states, (rows) => rows.every(({ state }) => state !== "pending"))
