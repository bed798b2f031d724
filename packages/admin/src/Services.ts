import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { Audit } from "@card-rewards/core/Audit"
import { refusal, schemaOf, underRole } from "@card-rewards/core/AwaitSchema"
import * as Database from "@card-rewards/core/Database"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Environment } from "@card-rewards/core/Environment"
import { IntegratorBacklogs } from "@card-rewards/core/IntegratorBacklogs"
import { Integrators } from "@card-rewards/core/Integrators"
import { parseKeys, Secrets } from "@card-rewards/core/Secrets"
import { oneOf, required, setting, StartRefused } from "@card-rewards/core/Settings"
import { Simulations } from "@card-rewards/core/Simulations"
import { StoredSecrets } from "@card-rewards/core/StoredSecrets"
import { Vault } from "@card-rewards/core/Vault"
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { Context, Effect, FileSystem, Layer, Option, Redacted } from "effect"

/** The folder of the embedded database and of its secrets key. */
const dataDir = setting("DATA_DIR", "a path", ".data", (text) => text)

const configuredUrl = setting(
  "DATABASE_URL",
  "a postgres:// address",
  Option.none(),
  (text) => /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) ? Option.some(Redacted.make(text)) : undefined
)

/** The database: `DATABASE_URL`, or else the embedded one of `DATA_DIR`, which is started where it does not run. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, {
  readonly url: Redacted.Redacted
}>()("@card-rewards/admin/DatabaseUrl") {
  static readonly layer = Layer.unwrap(Effect.gen(function*() {
    const configured = yield* configuredUrl
    if (Option.isSome(configured)) return Layer.succeed(DatabaseUrl, { url: configured.value })
    return Layer.effect(DatabaseUrl, Effect.map(EmbeddedPostgres, ({ url }) => ({ url }))).pipe(
      Layer.provide(EmbeddedPostgres.layer({ dataDir: `${yield* dataDir}/postgres` }))
    )
  }))
}

const environment = Layer.effect(
  Environment,
  setting("ENVIRONMENT", "sandbox or production", "sandbox", oneOf("sandbox", "production"))
)

/** The database under the operator's role. Fails where its schema is not the one of this version. */
const database = Layer.unwrap(Effect.gen(function*() {
  const { url } = yield* DatabaseUrl
  const config = { url, poolSize: 2, applicationName: "card-rewards admin" }
  const found = yield* schemaOf(config)
  if (found !== Database.schemaVersion) return yield* new StartRefused({ message: refusal(found) })
  return Database.layer(yield* underRole(config, "admin"))
})).pipe(Layer.provide(DatabaseUrl.layer))

/** The services of all commands except `migrate`, `replay` and `secrets`. */
export const services = Layer.mergeAll(
  Integrators.layer,
  ApiKeys.layer,
  Vault.layer,
  Audit.layer,
  IntegratorBacklogs.layer,
  Simulations.layer()
).pipe(
  Layer.provide(environment),
  Layer.provide(database)
)

/** The services of `replay`, with the database, where it finds the endpoint. */
export const replayServices = DeliveryLog.layer.pipe(Layer.provideMerge(database))

const keysFile = Effect.gen(function*() {
  const path = `${yield* dataDir}/secrets-key`
  return yield* (yield* FileSystem.FileSystem).readFileString(path).pipe(
    Effect.map((text) => Redacted.make(text.trim())),
    Effect.mapError(() => new StartRefused({ message: `SECRETS_KEY is required: there is no ${path}` }))
  )
})

/** The keys of `SECRETS_KEY`, or else the key file of the embedded database. */
const secrets = Layer.unwrap(Effect.gen(function*() {
  const configured = Option.isSome(yield* configuredUrl)
    ? Option.some(yield* required("SECRETS_KEY", "32 bytes in base64", Redacted.make))
    : yield* setting("SECRETS_KEY", "32 bytes in base64", Option.none(), (text) => Option.some(Redacted.make(text)))
  return Secrets.layer({ keys: yield* parseKeys(Option.isSome(configured) ? configured.value : yield* keysFile) })
}))

/** The services of `secrets`, the only command that needs the keys. */
export const secretsServices = StoredSecrets.layer.pipe(Layer.provide(secrets), Layer.provide(database))
