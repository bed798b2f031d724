import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import { refuse } from "@card-rewards/domain/EndpointUrl"
import type { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import {
  EndpointUrlRefused,
  maxReplacedSecrets,
  replacedSecretMillis,
  type SecretRotated,
  type WebhookEndpoint,
  WebhookEndpointConflict,
  type WebhookEndpointCreated,
  WebhookEndpointLimit
} from "@card-rewards/domain/WebhookEndpoint"
import type { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Clock, Context, Effect, Layer } from "effect"
import type { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { transaction, value, withinRequestDeadline } from "./Database.ts"
import type { Row } from "./Database/Table.ts"
import { atOnce, wakeEndpoints } from "./Deliveries/WakeUp.ts"
import * as Integrators from "./Integrators.ts"
import { lockIntegrator, lockLive, lockVault } from "./Locks.ts"
import { newWebhookSecret, Secrets, type SecretUnreadable } from "./Secrets.ts"
import * as Tables from "./Tables.ts"

/**
 * The endpoint that receives an integrator's events, and its signing secrets (contract, sections 2.8, 3.4, 4.6 and 4.7;
 * decisions, section 7). An integrator has at most one endpoint. A replaced secret signs for 24 hours; at most four are
 * kept. The id of a deleted endpoint may be used again; each creation is a new generation. Times are real.
 */
export class WebhookEndpoints extends Context.Service<WebhookEndpoints, {
  /** The endpoint with its lag, unless it was deleted or never created. */
  readonly list: (integratorId: IntegratorId) => Effect.Effect<ReadonlyArray<WebhookEndpoint>, Unavailable>
  /** Creates the endpoint. A repeat with the same id and URL is a `duplicate` and returns no secret. */
  readonly create: (
    integratorId: IntegratorId,
    creation: { readonly id: EndpointId; readonly url: string }
  ) => Effect.Effect<
    WebhookEndpointCreated,
    WebhookEndpointConflict | EndpointUrlRefused | WebhookEndpointLimit | Unavailable
  >
  /** The endpoint with its lag. */
  readonly get: (integratorId: IntegratorId, id: EndpointId) => Effect.Effect<WebhookEndpoint, NotFound | Unavailable>
  /**
   * Changes the URL, closes the circuit breaker, and makes the waiting retries due. An update to the current URL
   * changes nothing.
   */
  readonly update: (
    integratorId: IntegratorId,
    id: EndpointId,
    url: string
  ) => Effect.Effect<WebhookEndpoint, NotFound | EndpointUrlRefused | Unavailable>
  /**
   * Deletes the endpoint with its secrets and returns it. Its lease ends; a worker removes its retries (see
   * `Deliveries.purge`).
   */
  readonly remove: (
    integratorId: IntegratorId,
    id: EndpointId
  ) => Effect.Effect<WebhookEndpoint, NotFound | Unavailable>
  /** Creates a new current secret. Up to four replaced secrets also sign, each for 24 hours after its replacement. */
  readonly rotateSecret: (
    integratorId: IntegratorId,
    id: EndpointId
  ) => Effect.Effect<SecretRotated, NotFound | Unavailable>
  /** The valid secrets, newest first: the current one and up to four replaced ones. Empty for a deleted endpoint. */
  readonly signingSecrets: (
    integratorId: IntegratorId,
    generation: number
  ) => Effect.Effect<ReadonlyArray<WebhookSecret>, SecretUnreadable | Unavailable>
}>()("@card-rewards/core/WebhookEndpoints") {
  /** `allowPrivateNetwork` is for development and tests: `http` and local addresses are accepted as well. */
  static readonly layer = (options: {
    readonly allowPrivateNetwork: boolean
  }): Layer.Layer<WebhookEndpoints, never, SqlClient.SqlClient | Secrets> =>
    Layer.effect(
      WebhookEndpoints,
      Effect.gen(function*() {
        const services = yield* Effect.context<SqlClient.SqlClient | Secrets | SecureRandom.SecureRandom>()
        const run = Effect.provideContext(services)
        const checkUrl = checkUrlWith(options)
        return WebhookEndpoints.of({
          list: Effect.fn("WebhookEndpoints.list")(list, run),
          create: Effect.fn("WebhookEndpoints.create")((integratorId, creation) =>
            create(checkUrl, integratorId, creation).pipe(run)
          ),
          get: Effect.fn("WebhookEndpoints.get")(get, run),
          update: Effect.fn("WebhookEndpoints.update")((integratorId, id, url) =>
            update(checkUrl, integratorId, id, url).pipe(run)
          ),
          remove: Effect.fn("WebhookEndpoints.remove")(remove, run),
          rotateSecret: Effect.fn("WebhookEndpoints.rotateSecret")(rotateSecret, run),
          signingSecrets: Effect.fn("WebhookEndpoints.signingSecrets")(signingSecrets, run)
        })
      })
    ).pipe(Layer.provide(NodeCrypto.layerSecureRandom))
}

/** The id of an integrator's endpoint, if there is one, for the operator's commands, which have no keys of secrets. */
export const liveEndpointId = Effect.fn("WebhookEndpoints.liveEndpointId")(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ endpointId: EndpointId | null }>`SELECT e.endpoint_id
    FROM integrators i LEFT JOIN webhook_endpoints e ON e.integrator_id = i.integrator_id AND e.deleted_at IS NULL
    WHERE i.integrator_id = ${integratorId}`
  if (row !== undefined) return row.endpointId ?? undefined
  return yield* Integrators.notFound(integratorId)
}, withinRequestDeadline)

const shown = Tables.webhookEndpoints.pick("generation", "endpoint_id", "url", "created_at")

interface EndpointRow extends Row<typeof shown> {
  readonly previousSecretExpiresAt: number | null
}

/** A live endpoint, with the number of events that its cursor has not passed. */
interface LiveRow extends EndpointRow {
  readonly lag: bigint
}

const list = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const live = yield* selectLive(integratorId)
  return live === undefined ? [] : [withLag(live)]
}, withinRequestDeadline)

const create = Effect.fnUntraced(function*(
  checkUrl: CheckUrl,
  integratorId: IntegratorId,
  { id, url }: { readonly id: EndpointId; readonly url: string }
) {
  yield* lockVault(integratorId)
  const live = yield* selectLive(integratorId)
  if (live?.endpointId === id) {
    if (live.url === url) return { endpoint: toEndpoint(live), duplicate: true }
    return yield* new WebhookEndpointConflict({ id, message: "There is an endpoint with this id and another URL" })
  }
  yield* checkUrl(url)
  if (live !== undefined) {
    return yield* new WebhookEndpointLimit({ message: "There is an endpoint already; change or delete that one" })
  }
  const row = yield* one(yield* insert(integratorId, id, url))
  const secret = yield* addSecret(integratorId, row.generation, 1)
  return { endpoint: toEndpoint(row), secret, duplicate: false }
}, transaction)

const get = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId) {
  return withLag(yield* find(integratorId, id))
}, withinRequestDeadline)

const update = Effect.fnUntraced(
  function*(checkUrl: CheckUrl, integratorId: IntegratorId, id: EndpointId, url: string) {
    const sql = yield* SqlClient.SqlClient
    // no holder gives it up meanwhile, with the times of the earlier URL
    yield* lockVault(integratorId)
    yield* lockLive(integratorId)
    const live = yield* find(integratorId, id)
    if (url === live.url) return toEndpoint(live)
    yield* checkUrl(url)
    // its holder, where it has one, reads the new revision
    yield* sql`UPDATE webhook_endpoints SET url = ${url}, revision = revision + 1, failures = 0, probe_at = NULL
      WHERE integrator_id = ${integratorId} AND generation = ${value.int4(live.generation)}`
    yield* wakeEndpoints(sql, [integratorId], yield* Clock.currentTimeMillis)
    return toEndpoint({ ...live, url })
  },
  transaction
)

const remove = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId) {
  const sql = yield* SqlClient.SqlClient
  yield* lockVault(integratorId)
  const live = yield* find(integratorId, id)
  const generation = value.int4(live.generation)
  const now = yield* Clock.currentTimeMillis
  yield* sql`UPDATE webhook_endpoints
    SET deleted_at = ${value.timestamptz(now)}, worker = NULL, token = token + 1, work_at = ${atOnce(now)}
    WHERE integrator_id = ${integratorId} AND generation = ${generation}`
  yield* sql`DELETE FROM webhook_secrets WHERE integrator_id = ${integratorId} AND generation = ${generation}`
  return toEndpoint(live)
}, transaction)

const rotateSecret = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId) {
  const sql = yield* SqlClient.SqlClient
  yield* lockIntegrator(integratorId)
  yield* lockLive(integratorId)
  const live = yield* find(integratorId, id)
  const generation = value.int4(live.generation)
  const now = yield* Clock.currentTimeMillis
  const expiresAt = now + replacedSecretMillis
  const replaced = yield* sql<{ rotation: number }>`UPDATE webhook_secrets
    SET expires_at = ${value.timestamptz(expiresAt)}
    WHERE integrator_id = ${integratorId} AND generation = ${generation} AND expires_at IS NULL RETURNING rotation`
  const current = yield* one(replaced)
  const secret = yield* addSecret(integratorId, live.generation, current.rotation + 1)
  const dropped = value.int4(current.rotation - maxReplacedSecrets)
  yield* sql`DELETE FROM webhook_secrets WHERE integrator_id = ${integratorId} AND generation = ${generation}
    AND (expires_at <= ${value.timestamptz(now)} OR rotation <= ${dropped})`
  return { endpoint: toEndpoint({ ...live, previousSecretExpiresAt: expiresAt }), secret }
}, transaction)

const signingSecrets = Effect.fnUntraced(function*(integratorId: IntegratorId, generation: number) {
  const sql = yield* SqlClient.SqlClient
  const secrets = yield* Secrets
  const now = yield* Clock.currentTimeMillis
  const rows = yield* sql<{ rotation: number; encrypted: Uint8Array }>`
    SELECT rotation, encrypted FROM webhook_secrets
    WHERE integrator_id = ${integratorId} AND generation = ${value.int4(generation)}
      AND (expires_at IS NULL OR expires_at > ${value.timestamptz(now)})
    ORDER BY rotation DESC`
  return yield* Effect.forEach(rows, ({ encrypted, rotation }) =>
    secrets.decrypt(encrypted, locationOf(integratorId, generation, rotation)))
}, withinRequestDeadline)

const checkUrlWith = (options: { readonly allowPrivateNetwork: boolean }) =>
  Effect.fnUntraced(function*(url: string) {
    const reason = refuse(url, options)
    if (reason !== undefined) return yield* new EndpointUrlRefused({ message: `The URL is refused: ${reason}` })
  })

type CheckUrl = ReturnType<typeof checkUrlWith>

const find = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId) {
  const live = yield* selectLive(integratorId)
  return live?.endpointId === id ? live : yield* NotFound.of("webhook_endpoint", id)
})

const selectLive = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<LiveRow>`SELECT ${shown.of("e")},
      (SELECT max(s.expires_at) FROM webhook_secrets s
        WHERE s.integrator_id = e.integrator_id AND s.generation = e.generation) AS previous_secret_expires_at,
      (SELECT v.events FROM vaults v WHERE v.integrator_id = e.integrator_id) - e.cursor AS lag
    FROM webhook_endpoints e WHERE e.integrator_id = ${integratorId} AND e.deleted_at IS NULL`
  return row
})

/** A new generation, which consumes the events from now on. It numbers on from the last one. */
const insert = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId, url: string) {
  const sql = yield* SqlClient.SqlClient
  const createdAt = value.timestamptz(yield* Clock.currentTimeMillis)
  return yield* sql<EndpointRow>`INSERT INTO webhook_endpoints
      (integrator_id, ${shown.names}, first_revision, revision, start, cursor, round)
    SELECT v.integrator_id, coalesce(last.generation, 0) + 1, ${id}, ${url}, ${createdAt},
      coalesce(last.revision, 0) + 1, coalesce(last.revision, 0) + 1, v.events, v.events, coalesce(last.round, 1)
    FROM vaults v LEFT JOIN LATERAL (
      SELECT e.generation, e.revision, e.round FROM webhook_endpoints e
      WHERE e.integrator_id = v.integrator_id ORDER BY e.generation DESC LIMIT 1
    ) last ON true WHERE v.integrator_id = ${integratorId}
    RETURNING ${shown.names}, NULL::timestamptz AS previous_secret_expires_at`
})

const addSecret = Effect.fnUntraced(function*(integratorId: IntegratorId, generation: number, rotation: number) {
  const sql = yield* SqlClient.SqlClient
  const secrets = yield* Secrets
  const secret = yield* newWebhookSecret
  const encrypted = yield* secrets.encrypt(secret, locationOf(integratorId, generation, rotation))
  yield* sql`${Tables.webhookSecrets.insert([{ integratorId, generation, rotation, encrypted }])}`
  return secret
})

const one = <A>(rows: ReadonlyArray<A>): Effect.Effect<A> =>
  rows[0] === undefined ? Effect.die(new Error("A statement that returns a row has none")) : Effect.succeed(rows[0])

/** The row of a secret, as {@link Secrets} authenticates it. The integrator's id comes last: it may contain a slash. */
export const locationOf = (integratorId: IntegratorId, generation: number, rotation: number): string =>
  `webhook_secrets/${generation}/${rotation}/${integratorId}`

const withLag = (row: LiveRow): WebhookEndpoint => ({ ...toEndpoint(row), lag: Number(row.lag) })

const toEndpoint = (row: EndpointRow): WebhookEndpoint => ({
  id: row.endpointId,
  url: row.url,
  createdAt: instant(row.createdAt),
  ...(row.previousSecretExpiresAt === null ? {} : { previousSecretExpiresAt: instant(row.previousSecretExpiresAt) })
})
