import {
  type ApiKey,
  type ApiKeyCreated,
  ApiKeyLimit,
  LastActiveKey,
  maxActiveKeys,
  maxKeys
} from "@card-rewards/domain/ApiKey"
import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { ApiKeyName, IntegratorId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Clock, Context, Effect, Layer, Option, Redacted } from "effect"
import type { Digest, SecureRandom } from "effect/crypto"
import { SqlClient, type SqlError } from "effect/sql"
import * as Batcher from "./Batcher.ts"
import { transaction, value, withinRequestDeadline } from "./Database.ts"
import { columnList, int4, type Row, timestamptz } from "./Database/Table.ts"
import { Environment } from "./Environment.ts"
import { lockIntegrator } from "./Locks.ts"
import { noAction, type RecordAction } from "./OperatorActions/RecordAction.ts"
import * as Secrets from "./Secrets.ts"
import { isOwned, notOwned, ownedAmong, slotOf } from "./Slots.ts"
import * as Tables from "./Tables.ts"

/** The owner of a key, and whether the key may be used. */
export interface FoundKey {
  readonly integratorId: IntegratorId
  /** The integrator's; see Slots.ts. */
  readonly slot: number
  readonly name: ApiKeyName
  readonly revoked: boolean
  /** Whether the integrator is suspended. */
  readonly suspended: boolean
}

/** A look-up by hash, in the turn of `client`. */
export interface LookUp {
  readonly hash: Uint8Array
  readonly slot: number
  readonly client: string
}

/** A use of a key; `at` is real time in milliseconds. */
export interface KeyUse {
  readonly integratorId: IntegratorId
  readonly name: ApiKeyName
  readonly at: number
}

/**
 * The integrators' API keys (contract, sections 2.7, 4.5 and 8; decisions, section 8). An integrator has at most 20
 * active keys, and 1,000 in all. A name is never reused, the last active key cannot be revoked, times are real. Only
 * the SHA-256 of a key is stored.
 */
export class ApiKeys extends Context.Service<ApiKeys, {
  /** All keys of an integrator, including revoked ones, oldest first. */
  readonly list: (integratorId: IntegratorId) => Effect.Effect<ReadonlyArray<ApiKey>, Unavailable>
  /** Creates a key. Where a key of this name exists, also a revoked one, the result is a `duplicate` without secret. */
  readonly create: (
    integratorId: IntegratorId,
    name: ApiKeyName,
    record?: RecordAction
  ) => Effect.Effect<ApiKeyCreated, ApiKeyLimit | Unavailable>
  /** Revokes a key. A repeat changes nothing. */
  readonly revoke: (
    integratorId: IntegratorId,
    name: ApiKeyName,
    record?: RecordAction
  ) => Effect.Effect<ApiKey, NotFound | LastActiveKey | Unavailable>
  /**
   * Finds the key with this {@link Secrets.hashApiKey hash}, which begins with `slot`. Fails where there is none and
   * the cell does not own the slot. Concurrent look-ups share one statement, in which clients take turns.
   */
  readonly find: (lookUp: LookUp) => Effect.Effect<Option.Option<FoundKey>, Unavailable>
  /** Records when keys were used, to the minute. Writes only times later than the stored ones. */
  readonly markUsed: (uses: ReadonlyArray<KeyUse>) => Effect.Effect<void, Unavailable>
}>()("@card-rewards/core/ApiKeys") {
  static readonly layer = Layer.effect(
    ApiKeys,
    Effect.gen(function*() {
      const run = Effect.provideContext(yield* Effect.context<IssueServices>())
      const readKey = yield* Batcher.ofReads<LookUp, LookedUp>({
        name: "ApiKeys.readKeys",
        keyOf: ({ client }) => client,
        read: (lookUps) => readKeys(lookUps).pipe(run)
      })
      return ApiKeys.of({
        list: Effect.fn("ApiKeys.list")(list, run),
        create: Effect.fn("ApiKeys.create")(create, run),
        revoke: Effect.fn("ApiKeys.revoke")(revoke, run),
        find: Effect.fn("ApiKeys.find")((lookUp) => Effect.flatMap(readKey(lookUp), keyOf)),
        markUsed: Effect.fn("ApiKeys.markUsed")(markUsed, run)
      })
    })
  ).pipe(Layer.provide([NodeCrypto.layerSecureRandom, NodeCrypto.layerDigest]))
}

const shown = Tables.apiKeys.pick("name", "last4", "created_at", "revoked_at", "last_used_at")
type KeyRow = Row<typeof shown>

const list = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<KeyRow>`SELECT ${shown.names} FROM api_keys
    WHERE integrator_id = ${integratorId} ORDER BY created_at, name COLLATE "C"`
  return rows.map(toKey)
}, withinRequestDeadline)

const create = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  name: ApiKeyName,
  record: RecordAction = noAction
) {
  yield* lockIntegrator(integratorId)
  const existing = yield* select(integratorId, name)
  if (existing !== undefined) {
    yield* record("unchanged")
    return { key: toKey(existing), duplicate: true }
  }
  const { all, active } = yield* count(integratorId)
  if (all >= maxKeys) return yield* limitReached(maxKeys, "keys in all, revoked ones included")
  if (active >= maxActiveKeys) return yield* limitReached(maxActiveKeys, "active keys; revoke one first")
  const { key, secret } = yield* issue(integratorId, name)
  yield* record("done")
  return { key, secret: Redacted.value(secret), duplicate: false }
}, transaction)

const revoke = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  name: ApiKeyName,
  record: RecordAction = noAction
) {
  const sql = yield* SqlClient.SqlClient
  yield* lockIntegrator(integratorId)
  const existing = yield* select(integratorId, name)
  if (existing === undefined) return yield* NotFound.of("api_key", name)
  if (existing.revokedAt !== null) {
    yield* record("unchanged")
    return toKey(existing)
  }
  const { active } = yield* count(integratorId)
  if (active === 1) {
    const message = "The last active key cannot be revoked; create another one first"
    return yield* new LastActiveKey({ name, message })
  }
  const revokedAt = yield* Clock.currentTimeMillis
  yield* sql`UPDATE api_keys SET revoked_at = ${value.timestamptz(revokedAt)}
    WHERE integrator_id = ${integratorId} AND name = ${name}`
  yield* record("done")
  return toKey({ ...existing, revokedAt })
}, transaction)

const select = Effect.fnUntraced(function*(integratorId: IntegratorId, name: ApiKeyName) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<KeyRow>`SELECT ${shown.names} FROM api_keys
    WHERE integrator_id = ${integratorId} AND name = ${name}`
  return row
})

const count = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ all: number; active: number }>`
    SELECT count(*)::int AS "all", (count(*) FILTER (WHERE revoked_at IS NULL))::int AS active
    FROM api_keys WHERE integrator_id = ${integratorId}`
  return rows[0] ?? { all: 0, active: 0 }
})

const usedKeys = columnList({ ...Tables.apiKeys.pick("integrator_id", "name").columns, minute: timestamptz() })

const markUsed = Effect.fnUntraced(function*(uses: ReadonlyArray<KeyUse>) {
  if (uses.length === 0) return
  const sql = yield* SqlClient.SqlClient
  // locks the rows in key order, so that two processes do not deadlock
  yield* sql`UPDATE api_keys k SET last_used_at = later.minute
    FROM (
      SELECT k.integrator_id, k.name, u.minute
      FROM (
        SELECT integrator_id, name, max(minute) AS minute
        FROM ${usedKeys.unnest(uses.map((use) => ({ ...use, minute: startOfMinute(use.at) })))}
        GROUP BY integrator_id, name
      ) u
      JOIN api_keys k ON k.integrator_id = u.integrator_id AND k.name = u.name
      WHERE (k.last_used_at IS NULL OR k.last_used_at < u.minute) AND ${isOwned("k.integrator_id")}
      ORDER BY k.integrator_id, k.name FOR NO KEY UPDATE OF k
    ) later
    WHERE k.integrator_id = later.integrator_id AND k.name = later.name`
}, withinRequestDeadline)

const lookedUp = columnList({ ...Tables.apiKeyHashes.pick("key_hash").columns, slot: int4(), position: int4() })

/** What a cell has of a key: its rows were deleted, or are not there yet, where the cell does not own the slot. */
interface LookedUp {
  readonly isOwned: boolean
  readonly key: FoundKey | undefined
}

const keyOf = ({ isOwned, key }: LookedUp) =>
  key === undefined && !isOwned ? Effect.fail(notOwned()) : Effect.succeed(Option.fromUndefinedOr(key))

interface FoundRow extends Omit<FoundKey, "slot" | "name"> {
  readonly position: number
  readonly isOwned: boolean
  /** Null where there is no such key, as are all of the key then. */
  readonly name: ApiKeyName | null
}

/** Reads the keys with these hashes by primary key; returns a function from a look-up's position to what it found. */
const readKeys = Effect.fnUntraced(function*(lookUps: ReadonlyArray<LookUp>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<FoundRow>`
    SELECT t.position, t.slot = ANY (${ownedAmong(lookUps.map(({ slot }) => slot))}) AS is_owned,
      k.integrator_id, k.name, k.revoked_at IS NOT NULL AS revoked, i.suspended_at IS NOT NULL AS suspended
    FROM ${lookedUp.unnest(lookUps.map(({ hash, slot }, position) => ({ keyHash: hash, slot, position })))}
    LEFT JOIN api_key_hashes h ON h.key_hash = t.key_hash
    LEFT JOIN api_keys k ON k.integrator_id = h.integrator_id AND k.name = h.name
    LEFT JOIN integrators i ON i.integrator_id = k.integrator_id`
  const found = new Map(rows.map(({ isOwned, name, position, ...key }): readonly [number, LookedUp] => [
    position,
    { isOwned, key: name === null ? undefined : { ...key, name, slot: slotOf(key.integratorId) } }
  ]))
  return (position: number) => found.get(position) ?? { isOwned: false, key: undefined }
})

/** The services that {@link issue} requires. */
export type IssueServices = SqlClient.SqlClient | Environment | SecureRandom.SecureRandom | Digest.Digest

/** Generates and stores a key. Runs inside the caller's transaction, which checks the name and the limits. */
export const issue = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  name: ApiKeyName
): Effect.fn.Return<
  { readonly key: ApiKey; readonly secret: Redacted.Redacted },
  SqlError.SqlError,
  IssueServices
> {
  const sql = yield* SqlClient.SqlClient
  const secret = yield* Secrets.newApiKey(yield* Environment, slotOf(integratorId))
  const keyHash = yield* Secrets.hashApiKey(secret)
  const last4 = Redacted.value(secret).slice(-4)
  const createdAt = yield* Clock.currentTimeMillis
  yield* sql`${Tables.apiKeys.insert([{ integratorId, name, last4, createdAt }])}`
  yield* sql`${Tables.apiKeyHashes.insert([{ keyHash, integratorId, name }])}`
  return { key: { name, last4, createdAt: instant(createdAt) }, secret }
})

const toKey = (row: KeyRow): ApiKey => ({
  name: row.name,
  last4: row.last4,
  createdAt: instant(row.createdAt),
  ...(row.revokedAt === null ? {} : { revokedAt: instant(row.revokedAt) }),
  ...(row.lastUsedAt === null ? {} : { lastUsedAt: instant(row.lastUsedAt) })
})

const limitReached = (limit: number, what: string) =>
  new ApiKeyLimit({ limit, message: `There are ${limit} ${what}` })

const startOfMinute = (at: number): number => Math.floor(at / 60_000) * 60_000
