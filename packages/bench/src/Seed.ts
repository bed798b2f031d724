import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import * as Secrets from "@card-rewards/core/Secrets"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { NodeCrypto } from "@effect/platform-node"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Fill } from "./Server.ts"

const { columns, value } = Database

/**
 * Integrators, users and programs before the first spend event. The users are divided evenly among the integrators;
 * every integrator has the same programs, and every clearing earns in exactly one of them.
 */
export interface Population {
  readonly integrators: number
  readonly users: number
  readonly programs: number
  readonly versions: number
  /** Whether every integrator has a webhook endpoint. Its address is never called: no dispatcher runs. */
  readonly endpoints?: boolean
}

/** The id of an integrator by its index from 0. */
export const integratorOf = (index: number): IntegratorId => IntegratorId.make(`integrator-${index}`)

/** The id of a user by its index from 0, over all integrators. */
export const userOf = (index: number): string => `user-${`${index}`.padStart(7, "0")}`

/** An integrator's API key by the integrator's index. It is the same in every database. */
export const keyOf = (index: number): string => `service_sk_sandbox_${`${index}`.padStart(64, "0")}`

/** The `SECRETS_KEY` of every database. */
export const secretsKey = Buffer.alloc(32, 7).toString("base64")

/** USDC units in every vault: more than all rewards of a run. */
const deposited = 10n ** 24n

/** The population in a migrated database. */
export const population = (options: Population): Fill => ({
  name: Object.values(options).join("_"),
  base: { name: "schema", fill: (url) => Effect.orDie(Database.migrate(url)) },
  fill: (url) => Effect.provide(Effect.orDie(fill(options)), services(url))
})

const services = (url: Redacted.Redacted) =>
  Layer.mergeAll(Integrators.layer, Vault.layer, NodeCrypto.layerDigest).pipe(
    Layer.provideMerge(Environment.layer("sandbox")),
    Layer.provideMerge(Database.layer({ url, poolSize: 4, applicationName: "card-rewards bench" })),
    Layer.orDie
  )

const fill = Effect.fnUntraced(function*({ endpoints = false, integrators, programs, users, versions }: Population) {
  const indexes = Array.from({ length: integrators }, (_, index) => index)
  yield* Effect.forEach(indexes, makeIntegrator, { concurrency: 4 })
  for (let first = 0; first < users; first += usersAtOnce) {
    yield* addUsers(integrators, first, Math.min(usersAtOnce, users - first))
  }
  for (const index of indexes) yield* addPrograms(integratorOf(index), programs, versions)
  const sql = yield* SqlClient.SqlClient
  if (endpoints) {
    yield* sql`INSERT INTO webhook_endpoints (integrator_id, generation, endpoint_id, url, created_at,
        first_revision, revision, start, cursor)
      SELECT integrator_id, 1, 'bench', 'https://receiver.example/hooks', now(), 1, 1, 0, 0 FROM integrators`
  }
  yield* sql`VACUUM ANALYZE`
})

const makeIntegrator = Effect.fnUntraced(function*(index: number) {
  const integratorId = integratorOf(index)
  yield* (yield* Integrators).create(integratorId)
  const hash = yield* Secrets.hashApiKey(Redacted.make(keyOf(index)))
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO api_keys (integrator_id, name, last4, created_at)
    VALUES (${integratorId}, 'bench', '0000', now())`
  yield* sql`INSERT INTO api_key_hashes (key_hash, integrator_id, name)
    VALUES (${value.bytea(hash)}, ${integratorId}, 'bench')`
  const vault = yield* Vault
  yield* vault.deposit(integratorId, {
    reference: Reference.make("deposit"),
    amount: { asset: "USDC", amount: deposited }
  })
})

/** Users that one statement adds. */
const usersAtOnce = 50_000

const addUsers = Effect.fnUntraced(function*(integrators: number, first: number, users: number) {
  const sql = yield* SqlClient.SqlClient
  const all = Array.from({ length: users }, (_, index) => ({
    userId: userOf(first + index),
    integratorId: integratorOf((first + index) % integrators)
  }))
  const keys = sql`unnest(${columns.text(all.map((user) => user.integratorId))},
    ${columns.text(all.map((user) => user.userId))}) AS t(integrator_id, user_id)`
  yield* sql`INSERT INTO users (integrator_id, user_id, enrolled_at, updated_at)
    SELECT integrator_id, user_id, '2020-01-01', '2020-01-01' FROM ${keys}`
  yield* sql`INSERT INTO user_attributes (integrator_id, user_id, arrival, stored_at)
    SELECT integrator_id, user_id, nextval('arrivals'), '2020-01-01' FROM ${keys}`
})

/** Only the versions of the first program pay for the clearings of the run; the newest of them is in force. */
const addPrograms = Effect.fnUntraced(function*(integratorId: IntegratorId, programs: number, versions: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = Array.from({ length: programs * versions }, (_, index) => ({
    programId: `program-${Math.floor(index / versions)}`,
    version: index % versions + 1,
    effectiveFrom: Date.UTC(2020, 0, 1 + index % versions),
    pays: index < versions
  }))
  const { int4, text, timestamptz } = columns
  yield* sql`INSERT INTO programs (integrator_id, program_id, asset)
    SELECT DISTINCT ${integratorId}, program_id, 'USDC'
    FROM unnest(${text(rows.map((row) => row.programId))}) AS program_id`
  yield* sql`INSERT INTO program_versions (integrator_id, program_id, version, effective_from, published_at, definition,
      definition_bytes, revision)
    SELECT ${integratorId}, program_id, version, effective_from, '2019-12-01', definition::jsonb,
      octet_length(definition::jsonb::text), 1
    FROM unnest(${text(rows.map((row) => row.programId))}, ${int4(rows.map((row) => row.version))},
      ${timestamptz(rows.map((row) => row.effectiveFrom))}, ${text(rows.map((row) => JSON.stringify(definition(row))))})
      AS t(program_id, version, effective_from, definition)`
  yield* sql`UPDATE integrators SET programs_revision = 1 WHERE integrator_id = ${integratorId}`
})

const definition = (row: { readonly effectiveFrom: number; readonly pays: boolean }) => ({
  asset: "USDC",
  effectiveFrom: new Date(row.effectiveFrom).toISOString(),
  categories: [{ id: "groceries", mccs: ["5411"] }, { id: "travel", mccs: ["4511", "7011"] }],
  baseRate: row.pays ? 100 : 0,
  categoryRates: [{ categoryId: "travel", rate: 300 }],
  merchantRates: [],
  tiers: [{ tier: "gold", multiplier: 15_000 }],
  campaigns: [],
  caps: { perMonth: "1000000000000000", categories: [{ categoryId: "travel", perMonth: "1000000000000" }] },
  exclusions: { mccs: ["6011"], merchants: [] },
  holdingPeriodDays: 14
})
