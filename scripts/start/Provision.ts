import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { refuseNewer } from "@card-rewards/core/AwaitSchema"
import * as Database from "@card-rewards/core/Database"
import { Environment, requireSame } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import * as Roles from "@card-rewards/core/Roles"
import { StartRefused } from "@card-rewards/core/Settings"
import { ApiKeyName, IntegratorId, type VaultId } from "@card-rewards/domain/Ids"
import { Clock, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { createHmac } from "node:crypto"

const integratorId = IntegratorId.make("demo")

/** Brings the schema up to date. */
export const migrate = Database.migrate

/** As long as one check of a starting api. */
const checkMillis = 5_000

/**
 * Fails, with the line that the api itself would print, where each of its starts would be refused: the schema is newer,
 * or the vaults are of another environment. Succeeds where the database does not answer: the api waits for it.
 */
export const refuseDatabase = (url: Redacted.Redacted, environment: VaultId): Effect.Effect<void, StartRefused> =>
  Effect.andThen(refuseNewer, requireSame).pipe(
    Effect.provide([Environment.layer(environment), ownerLayer(url)]),
    Effect.catchTag("SqlError", () => Effect.void),
    Effect.timeoutOption(checkMillis),
    Effect.asVoid,
    Effect.mapError(({ message }) => new StartRefused({ message: `card-rewards api: ${message}` }))
  )

/**
 * Creates the logins `rewards_api` and `rewards_worker` where they are missing, each a member of its part's role and of
 * nothing else, and returns the addresses of the same database with them. The passwords are derived from the
 * superuser's, so that every start with the same data directory finds the same ones.
 */
export const createLogins = Effect.fnUntraced(function*(superuserUrl: Redacted.Redacted) {
  const create = Effect.fnUntraced(function*(role: "api" | "worker") {
    const sql = yield* SqlClient.SqlClient
    const url = new URL(Redacted.value(superuserUrl))
    const login = `rewards_${role}`
    const password = createHmac("sha256", url.password).update(login).digest("hex")
    yield* sql.unsafe(`DO $$ BEGIN
      CREATE ROLE ${login} LOGIN PASSWORD '${password}' IN ROLE ${Roles.nameOf(role)};
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END $$`)
    return Redacted.make(Object.assign(url, { username: login, password }).href)
  })
  return yield* Effect.all({ api: create("api"), worker: create("worker") }).pipe(
    Effect.provide(ownerLayer(superuserUrl))
  )
})

/** Creates the sandbox integrator `demo`; where it exists and its key is lost, another key for it. */
export const createDemo = (url: Redacted.Redacted) =>
  Effect.gen(function*() {
    const integrators = yield* Integrators
    const { apiKey } = yield* integrators.create(integratorId)
    return { integratorId, apiKey: Redacted.value(apiKey) }
  }).pipe(
    Effect.catchTag("IntegratorExists", () => anotherKey),
    Effect.provide(
      Layer.mergeAll(Integrators.layer, ApiKeys.layer).pipe(
        Layer.provide(Environment.layer("sandbox")),
        Layer.provide(ownerLayer(url))
      )
    )
  )

/** A key of another start; instead of the first of these where there are as many keys as may be. */
const anotherKey = Effect.gen(function*() {
  const keys = yield* ApiKeys
  const now = yield* Clock.currentTimeMillis
  const create = keys.create(integratorId, ApiKeyName.make(`${ofStart}${now}`))
  const { secret } = yield* Effect.catchTag(create, "ApiKeyLimit", (full) =>
    Effect.gen(function*() {
      const first = (yield* keys.list(integratorId)).find(({ name, revokedAt }) =>
        revokedAt === undefined && name.startsWith(ofStart))
      if (first === undefined) return yield* full
      yield* keys.revoke(integratorId, first.name)
      return yield* create
    }))
  return { integratorId, apiKey: secret ?? "" }
})

/** How the names of keys of starts begin; the time follows. */
const ofStart = "start-"

const ownerLayer = (url: Redacted.Redacted) =>
  Database.layer({ url, poolSize: 2, applicationName: "card-rewards start" })
