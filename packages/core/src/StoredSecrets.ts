import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Context, Effect, Layer, Result } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value, withoutDeadline } from "./Database.ts"
import { noAction, type RecordAction } from "./OperatorActions/RecordAction.ts"
import { Secrets } from "./Secrets.ts"
import { isOwned } from "./Slots.ts"
import { locationOf } from "./WebhookEndpoints.ts"

/** The maximum number of secrets of one batch. */
const batchSecrets = 100

/** Result of a rotation. While any secret is unreadable or remains, the old key is still needed. */
export interface Rotated {
  /** The secrets that were re-encrypted. */
  readonly rotated: number
  /** The secrets that no configured key decrypts. */
  readonly unreadable: number
  /** Other secrets that are still under another key, because their slots are being moved or they changed meanwhile. */
  readonly remaining: number
}

/** The signing secrets of all integrators as they are stored (decisions, section 7). */
export class StoredSecrets extends Context.Service<StoredSecrets, {
  /**
   * Re-encrypts, under the first key, all secrets that are encrypted under another one, in batches. Leaves secrets
   * alone that change meanwhile, or whose slots the cell does not own. It may be interrupted and repeated, and may run
   * several times at once, while api and worker are running. The operator's action is recorded before the first batch.
   */
  readonly rotate: (
    onProgress: (done: number, total: number) => Effect.Effect<void>,
    record?: RecordAction
  ) => Effect.Effect<Rotated, Unavailable>
}>()("@card-rewards/core/StoredSecrets") {
  static readonly layer = Layer.effect(
    StoredSecrets,
    Effect.gen(function*() {
      const run = Effect.provideContext(yield* Effect.context<SqlClient.SqlClient | Secrets>())
      return StoredSecrets.of({ rotate: Effect.fn("StoredSecrets.rotate")(rotate, run) })
    })
  )
}

interface Row {
  readonly integratorId: IntegratorId
  readonly generation: number
  readonly rotation: number
  readonly encrypted: Uint8Array
}

const rotate = Effect.fnUntraced(function*(
  onProgress: (done: number, total: number) => Effect.Effect<void>,
  record: RecordAction = noAction
) {
  const total = yield* count
  yield* record(total === 0 ? "unchanged" : "began")
  // what is stored from now on was not recorded
  if (total === 0) return { rotated: 0, unreadable: 0, remaining: 0 }
  let [rotated, unreadable, done] = [0, 0, 0]
  let last: Row | undefined
  yield* onProgress(0, total)
  while (true) {
    const rows: ReadonlyArray<Row> = yield* read(last)
    last = rows.at(-1)
    if (last === undefined) return { rotated, unreadable, remaining: Math.max(0, (yield* count) - unreadable) }
    const readable = (yield* Effect.forEach(rows, reEncrypt)).flat()
    if (readable.length > 0) rotated += (yield* write(readable)).length
    unreadable += rows.length - readable.length
    done += rows.length
    yield* onProgress(Math.min(done, total), total)
  }
}, withoutDeadline)

/** SQL for a secret that the first key did not encrypt. */
const isUnderAnotherKey = Effect.zipWith(SqlClient.SqlClient, Secrets, (sql, { keyId }) =>
  sql`substring(encrypted FOR ${value.int4(keyId.length)}) <> ${value.bytea(keyId)}`)

const count = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ count: number }>`
    SELECT count(*)::int AS count FROM webhook_secrets WHERE ${yield* isUnderAnotherKey}`
  return row?.count ?? 0
})

const read = Effect.fnUntraced(function*(last: Row | undefined) {
  const sql = yield* SqlClient.SqlClient
  const after = last === undefined ? sql`` : sql`AND (integrator_id, generation, rotation) >
    (${value.text(last.integratorId)}, ${value.int4(last.generation)}, ${value.int4(last.rotation)})`
  return yield* sql<Row>`SELECT integrator_id, generation, rotation, encrypted FROM webhook_secrets
    WHERE ${yield* isUnderAnotherKey} ${after}
    ORDER BY integrator_id, generation, rotation LIMIT ${value.int4(batchSecrets)}`
})

const reEncrypt = Effect.fnUntraced(function*(row: Row) {
  const secrets = yield* Secrets
  const location = locationOf(row.integratorId, row.generation, row.rotation)
  const secret = yield* Effect.result(secrets.decrypt(row.encrypted, location))
  return Result.isFailure(secret) ? [] : [{ ...row, replacement: yield* secrets.encrypt(secret.success, location) }]
})

const write = Effect.fnUntraced(function*(rows: ReadonlyArray<Row & { readonly replacement: Uint8Array }>) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`UPDATE webhook_secrets s SET encrypted = t.replacement
    FROM unnest(${columns.text(rows.map((row) => row.integratorId))},
      ${columns.int4(rows.map((row) => row.generation))}, ${columns.int4(rows.map((row) => row.rotation))},
      ${columns.bytea(rows.map((row) => row.encrypted))}, ${columns.bytea(rows.map((row) => row.replacement))})
      AS t(integrator_id, generation, rotation, encrypted, replacement)
    WHERE s.integrator_id = t.integrator_id AND s.generation = t.generation AND s.rotation = t.rotation
      AND s.encrypted = t.encrypted AND ${isOwned("s.integrator_id")}
    RETURNING 1`
})
