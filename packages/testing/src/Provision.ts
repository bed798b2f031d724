import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect, Layer, Redacted } from "effect"

/** Makes sandbox integrators in a database, as operators do. Returns the first API key of each. */
export const createIntegrators = Effect.fnUntraced(function*(url: Redacted.Redacted, ids: ReadonlyArray<string>) {
  const services = Integrators.layer.pipe(
    Layer.provide(Environment.layer("sandbox")),
    Layer.provide(Database.layer({ url, poolSize: 1, applicationName: "test" }))
  )
  const create = Effect.flatMap(Integrators, (integrators) =>
    Effect.forEach(ids, (id) =>
      Effect.map(integrators.create(IntegratorId.make(id)), ({ apiKey }) => ({ id, apiKey: Redacted.value(apiKey) }))))
  return yield* Effect.provide(create, services)
}, Effect.orDie)

/** As {@link createIntegrators}, for one of them. Returns its first API key. */
export const createIntegrator = Effect.fnUntraced(function*(url: Redacted.Redacted, id: string) {
  const [created] = yield* createIntegrators(url, [id])
  return created?.apiKey ?? ""
})

/** Migrates a database and makes a sandbox integrator in it, as operators do. Returns its first API key. */
export const provision = Effect.fnUntraced(function*(url: Redacted.Redacted, id: string) {
  yield* Database.migrate(url)
  return yield* createIntegrator(url, id)
}, Effect.orDie)
