import { ApiKeys } from "@card-rewards/core/ApiKeys"
import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { ApiKeyName, IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Effect, Layer, Redacted } from "effect"

/** An API key of the sandbox integrator. */
export interface Demo {
  readonly integratorId: string
  readonly apiKey: string
}

const integratorId = IntegratorId.make("demo")

/** Brings the schema up to date. */
export const migrate = Database.migrate

/** Makes the sandbox integrator `demo`; where there is one whose key is lost, another key for it. */
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
        Layer.provide(Database.layer({ url, poolSize: 2, applicationName: "card-rewards start" }))
      )
    )
  )

const anotherKey = Effect.gen(function*() {
  const keys = yield* ApiKeys
  const now = yield* Clock.currentTimeMillis
  const { secret } = yield* keys.create(integratorId, ApiKeyName.make(`start-${now}`))
  return { integratorId, apiKey: secret ?? "" }
})
