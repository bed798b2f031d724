import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { Audit } from "@card-rewards/core/Audit"
import { refusal, schemaOf, underRole } from "@card-rewards/core/AwaitSchema"
import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { Quarantine } from "@card-rewards/core/Quarantine"
import { parseKeys, Secrets } from "@card-rewards/core/Secrets"
import { oneOf, required, setting, StartRefused } from "@card-rewards/core/Settings"
import { Simulations } from "@card-rewards/core/Simulations"
import { StoredSecrets } from "@card-rewards/core/StoredSecrets"
import { Vault } from "@card-rewards/core/Vault"
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { Context, Effect, FileSystem, Layer, Option, Redacted } from "effect"

/** Where data lies that is not in a database of its own. */
const dataDir = setting("DATA_DIR", "a path", ".data", (text) => text)

const givenUrl = setting(
  "DATABASE_URL",
  "a postgres:// address",
  Option.none(),
  (text) => /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) ? Option.some(Redacted.make(text)) : undefined
)

/** Where the database is: `DATABASE_URL`, else the embedded one of `DATA_DIR`, started where it is not running. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, {
  readonly url: Redacted.Redacted
}>()("@card-rewards/admin/DatabaseUrl") {
  static readonly layer = Layer.unwrap(Effect.gen(function*() {
    const given = yield* givenUrl
    if (Option.isSome(given)) return Layer.succeed(DatabaseUrl, { url: given.value })
    return Layer.effect(DatabaseUrl, Effect.map(EmbeddedPostgres, ({ url }) => ({ url }))).pipe(
      Layer.provide(EmbeddedPostgres.layer({ dataDir: `${yield* dataDir}/postgres` }))
    )
  }))
}

const environment = Layer.effect(
  Environment,
  setting("ENVIRONMENT", "sandbox or production", "sandbox", oneOf("sandbox", "production"))
)

/** The database with the schema that this code works on, under the operator's role. */
const database = Layer.unwrap(Effect.gen(function*() {
  const { url } = yield* DatabaseUrl
  const config = { url, poolSize: 2, applicationName: "card-rewards admin" }
  const found = yield* schemaOf(config)
  if (found !== Database.schemaVersion) return yield* new StartRefused({ message: refusal(found) })
  return Database.layer(yield* underRole(config, "admin"))
})).pipe(Layer.provide(DatabaseUrl.layer))

/** What the commands act through. */
export const services = Layer.mergeAll(
  Integrators.layer,
  ApiKeys.layer,
  Vault.layer,
  Audit.layer,
  Quarantine.layer,
  Simulations.layer()
).pipe(
  Layer.provide(environment),
  Layer.provide(database)
)

const keysFile = Effect.gen(function*() {
  const path = `${yield* dataDir}/secrets-key`
  return yield* (yield* FileSystem.FileSystem).readFileString(path).pipe(
    Effect.map((text) => Redacted.make(text.trim())),
    Effect.mapError(() => new StartRefused({ message: `SECRETS_KEY is required: there is no ${path}` }))
  )
})

/** The keys of `SECRETS_KEY`, else the one made for the embedded database. */
const secrets = Layer.unwrap(Effect.gen(function*() {
  const given = Option.isSome(yield* givenUrl)
    ? Option.some(yield* required("SECRETS_KEY", "32 bytes in base64", Redacted.make))
    : yield* setting("SECRETS_KEY", "32 bytes in base64", Option.none(), (text) => Option.some(Redacted.make(text)))
  return Secrets.layer({ keys: yield* parseKeys(Option.isSome(given) ? given.value : yield* keysFile) })
}))

/** What `secrets rotate` acts through; nothing else needs the keys. */
export const secretsServices = StoredSecrets.layer.pipe(Layer.provide(secrets), Layer.provide(database))
