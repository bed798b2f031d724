import * as Database from "@card-rewards/core/Database"
import * as Secrets from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId } from "@card-rewards/domain/Ids"
import { Effect, Layer, Redacted } from "effect"
import { integratorOf, secretsKey } from "../Seed.ts"

/** Creates an endpoint for each integrator, at these addresses in turn. Returns their signing secrets. */
export const addEndpoints = Effect.fnUntraced(function*(
  url: Redacted.Redacted,
  integrators: number,
  addresses: ReadonlyArray<string>
) {
  const keys = yield* Secrets.parseKeys(Redacted.make(secretsKey))
  return yield* Effect.gen(function*() {
    const endpoints = yield* WebhookEndpoints
    const secrets: Record<string, string> = {}
    for (let index = 0; index < integrators; index++) {
      const endpoint = { id: EndpointId.make("bench"), url: addresses[index % addresses.length] ?? "" }
      const created = yield* endpoints.create(integratorOf(index), endpoint)
      if (created.secret !== undefined) secrets[integratorOf(index)] = created.secret
    }
    return secrets
  }).pipe(Effect.provide(
    WebhookEndpoints.layer({ allowPrivateNetwork: true }).pipe(
      Layer.provide(Secrets.Secrets.layer({ keys })),
      Layer.provide(Database.layer({ url, poolSize: 2, applicationName: "card-rewards bench" }))
    )
  ))
}, Effect.orDie)
