import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { Audit } from "@card-rewards/core/Audit"
import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { Vault } from "@card-rewards/core/Vault"
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { Config, Context, Effect, Layer, Option, type Redacted } from "effect"

/** Where the database is: `DATABASE_URL`, else the embedded one of `DATA_DIR`, which is started where it is not running. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, {
  readonly url: Redacted.Redacted
}>()("@card-rewards/admin/DatabaseUrl") {
  static readonly layer = Layer.unwrap(Effect.gen(function*() {
    const given = yield* Config.option(Config.Redacted("DATABASE_URL"))
    if (Option.isSome(given)) return Layer.succeed(DatabaseUrl, { url: given.value })
    const dataDir = yield* Config.String("DATA_DIR").pipe(Config.withDefault(".data"))
    return Layer.effect(DatabaseUrl, Effect.map(EmbeddedPostgres, ({ url }) => ({ url }))).pipe(
      Layer.provide(EmbeddedPostgres.layer({ dataDir: `${dataDir}/postgres` }))
    )
  }))
}

const environment = Layer.effect(
  Environment,
  Config.Literals(["sandbox", "production"], "ENVIRONMENT").pipe(Config.withDefault("sandbox"))
)

const database = Layer.unwrap(Effect.gen(function*() {
  const { url } = yield* DatabaseUrl
  return Database.layer({ url, poolSize: 2, applicationName: "card-rewards admin" })
}))

/** What the commands act through. */
export const services = Layer.mergeAll(Integrators.layer, ApiKeys.layer, Vault.layer, Audit.layer).pipe(
  Layer.provide(environment),
  Layer.provide(database),
  Layer.provide(DatabaseUrl.layer)
)
