import * as Database from "@card-rewards/core/Database"
import { Integrators } from "@card-rewards/core/Integrators"
import { Environment } from "@card-rewards/core/Environment"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import type { VaultId } from "@card-rewards/domain/Ids"
import { Context, Effect, Layer, type Redacted } from "effect"

/** The superuser's address of a new database with the service's schema; the database is dropped with the scope. */
export const migratedDatabase = TestDatabase.makeMigrated(Database.migrate)

/** A migrated database of its own for as long as the layer lives: a copy of a template, made in about 20 ms. */
export class FreshDatabase extends Context.Service<FreshDatabase, {
  /** The superuser's address. */
  readonly url: Redacted.Redacted
}>()("@card-rewards/testing/FreshDatabase") {
  static readonly layer = Layer.effect(
    FreshDatabase,
    Effect.map(migratedDatabase, (url) => FreshDatabase.of({ url }))
  )
}

/** Connections for the test itself, and what operators do out of band. */
export const operators = (environment: VaultId) =>
  Layer.unwrap(Effect.map(FreshDatabase, ({ url }) =>
    Integrators.layer.pipe(
      Layer.provideMerge(Environment.layer(environment)),
      Layer.provideMerge(Database.layer({ url, poolSize: 4, applicationName: "test" }))
    )))
