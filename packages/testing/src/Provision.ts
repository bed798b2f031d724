import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect, Layer, Redacted } from "effect"

/** Makes a sandbox integrator in a database, as operators do. Returns its first API key. */
export const createIntegrator = Effect.fnUntraced(function*(url: Redacted.Redacted, id: string) {
  const services = Integrators.layer.pipe(
    Layer.provide(Environment.layer("sandbox")),
    Layer.provide(Database.layer({ url, poolSize: 1, applicationName: "test" }))
  )
  const create = Effect.flatMap(Integrators, (integrators) => integrators.create(IntegratorId.make(id)))
  const { apiKey } = yield* Effect.provide(create, services)
  return Redacted.value(apiKey)
}, Effect.orDie)

/** Migrates a database and makes a sandbox integrator in it, as operators do. Returns its first API key. */
export const provision = Effect.fnUntraced(function*(url: Redacted.Redacted, id: string) {
  yield* Database.migrate(url)
  return yield* createIntegrator(url, id)
}, Effect.orDie)
