import type { Unavailable } from "@card-rewards/domain/Errors"
import { ApiKeyName, type IntegratorId } from "@card-rewards/domain/Ids"
import { laneCount } from "@card-rewards/domain/Lane"
import { assets } from "@card-rewards/domain/Money"
import { instant, type Instant } from "@card-rewards/domain/Time"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Clock, Context, Effect, Layer, type Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { Hex } from "effect/encoding"
import { SqlClient } from "effect/sql"
import { issue, type IssueServices } from "./ApiKeys.ts"
import { columns, transaction, value, withinRequestDeadline } from "./Database.ts"
import { Environment } from "./Environment.ts"
import { noAction, type RecordAction } from "./OperatorActions/RecordAction.ts"
import { isOwned, type Owned, requireOwned } from "./Slots.ts"

/** An integrator with this id exists. Its first key was shown when it was created. */
export class IntegratorExists extends Schema.TaggedError<IntegratorExists>()("IntegratorExists", {
  message: Schema.String,
  integratorId: Schema.String
}) {}

/** There is no such integrator. */
export class IntegratorNotFound extends Schema.TaggedError<IntegratorNotFound>()("IntegratorNotFound", {
  message: Schema.String,
  integratorId: Schema.String
}) {}

/** An integrator as its operator sees it; times are real. */
export interface Integrator {
  readonly integratorId: IntegratorId
  readonly createdAt: Instant
  readonly suspendedAt?: Instant
}

/** A new integrator and its first key, which is not shown again (contract, section 5.3). */
export interface IntegratorCreated {
  readonly integratorId: IntegratorId
  readonly keyName: ApiKeyName
  readonly apiKey: Redacted.Redacted
}

/** Name of an integrator's first key, which the operator hands over out of band. */
const firstKeyName = ApiKeyName.make("default")

/**
 * The operator's work: integrators are created, suspended and resumed out of band (contract, sections 5.3 and 5.6).
 * Each operation is one transaction, in which it records the operator's action.
 */
export class Integrators extends Context.Service<Integrators, {
  /** Creates an integrator with its lanes, its empty vault and its first key. */
  readonly create: (
    integratorId: IntegratorId,
    record?: RecordAction
  ) => Effect.Effect<IntegratorCreated, IntegratorExists | Unavailable>
  /** All integrators, by id. */
  readonly list: Effect.Effect<ReadonlyArray<Integrator>, Unavailable>
  /** Fails where there is no integrator with this id. */
  readonly requireExisting: (integratorId: IntegratorId) => Effect.Effect<void, IntegratorNotFound | Unavailable>
  /** Closes the API to an integrator; idempotent. Its stored events are still processed and delivered. */
  readonly suspend: (
    integratorId: IntegratorId,
    record?: RecordAction
  ) => Effect.Effect<Integrator, IntegratorNotFound | Unavailable>
  /** Opens the API to an integrator again; idempotent. */
  readonly resume: (
    integratorId: IntegratorId,
    record?: RecordAction
  ) => Effect.Effect<Integrator, IntegratorNotFound | Unavailable>
}>()("@card-rewards/core/Integrators") {
  static readonly layer = Layer.effect(
    Integrators,
    Effect.gen(function*() {
      const run = Effect.provideContext(yield* Effect.context<IssueServices>())
      return Integrators.of({
        create: Effect.fn("Integrators.create")(create, run),
        list: list.pipe(run, Effect.withSpan("Integrators.list")),
        requireExisting: Effect.fn("Integrators.requireExisting")(requireExisting, run),
        suspend: Effect.fn("Integrators.suspend")((integratorId, record) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => setSuspended(integratorId, now, record)).pipe(run)
        ),
        resume: Effect.fn("Integrators.resume")((integratorId, record) =>
          setSuspended(integratorId, null, record).pipe(run)
        )
      })
    })
  ).pipe(Layer.provide([NodeCrypto.layerSecureRandom, NodeCrypto.layerDigest]))
}

interface IntegratorRow {
  readonly integratorId: IntegratorId
  readonly createdAt: number
  readonly suspendedAt: number | null
}

const create = Effect.fnUntraced(function*(integratorId: IntegratorId, record: RecordAction = noAction) {
  const sql = yield* SqlClient.SqlClient
  const random = yield* SecureRandom.SecureRandom
  const salt = Hex.encode(yield* random.randomBytes(8))
  const now = yield* Clock.currentTimeMillis
  // a statement of its own: Citus refuses a subquery in an INSERT
  yield* requireSlot(integratorId)
  const made = yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt)
    VALUES (${integratorId}, ${value.timestamptz(now)}, ${salt}) ON CONFLICT DO NOTHING RETURNING integrator_id`
  if (made.length === 0) {
    return yield* new IntegratorExists({ integratorId, message: "There is an integrator with this id already" })
  }
  yield* sql`INSERT INTO lanes (integrator_id, lane)
    SELECT ${integratorId}, lane FROM generate_series(0, ${value.int4(laneCount - 1)}) AS lane`
  yield* sql`INSERT INTO vaults (integrator_id, vault_id) VALUES (${integratorId}, ${yield* Environment})`
  yield* sql`INSERT INTO vault_balances (integrator_id, asset, held, free)
    SELECT ${integratorId}, asset, 0, 0 FROM unnest(${columns.text(assets)}) AS asset`
  const { secret } = yield* issue(integratorId, firstKeyName)
  yield* record("done")
  return { integratorId, keyName: firstKeyName, apiKey: secret }
}, transaction)

const list = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<IntegratorRow>`SELECT integrator_id, created_at, suspended_at FROM integrators
    ORDER BY integrator_id COLLATE "C"`
  return rows.map(toIntegrator)
}).pipe(withinRequestDeadline)

const requireExisting = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`SELECT FROM integrators WHERE integrator_id = ${integratorId}`
  if (found.length === 0) return yield* notFound(integratorId)
}, withinRequestDeadline)

const requireSlot = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  yield* requireOwned(
    yield* sql<Owned>`SELECT ${isOwned("t.integrator_id")} AS is_owned
      FROM unnest(${columns.text([integratorId])}) AS t(integrator_id)`
  )
})

/** Fails for an id without a row: there is no such integrator only where its row would be in this cell. */
export const notFound = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  yield* requireSlot(integratorId)
  return yield* new IntegratorNotFound({ integratorId, message: "There is no integrator with this id" })
})

const setSuspended = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  suspendedAt: number | null,
  record: RecordAction = noAction
) {
  const sql = yield* SqlClient.SqlClient
  const [before] = yield* sql<IntegratorRow>`SELECT integrator_id, created_at, suspended_at FROM integrators
    WHERE integrator_id = ${integratorId} AND ${isOwned("integrator_id")} FOR NO KEY UPDATE`
  if (before === undefined) return yield* notFound(integratorId)
  const isSame = (before.suspendedAt === null) === (suspendedAt === null)
  if (!isSame) {
    yield* sql`UPDATE integrators SET suspended_at = ${value.timestamptz(suspendedAt)}
      WHERE integrator_id = ${integratorId}`
  }
  yield* record(isSame ? "unchanged" : "done")
  return toIntegrator(isSame ? before : { ...before, suspendedAt })
}, transaction)

const toIntegrator = (row: IntegratorRow): Integrator => ({
  integratorId: row.integratorId,
  createdAt: instant(row.createdAt),
  ...(row.suspendedAt === null ? {} : { suspendedAt: instant(row.suspendedAt) })
})
