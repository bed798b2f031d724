import { Secrets } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { Effect, Layer, Redacted } from "effect"

/** The endpoints, with keys of 32 equal bytes each. */
export const endpoints = (...bytes: ReadonlyArray<number>) =>
  WebhookEndpoints.layer({ allowPrivateNetwork: false }).pipe(
    Layer.provide(Secrets.layer({ keys: bytes.map((byte) => Redacted.make(new Uint8Array(32).fill(byte))) }))
  )

/** Creates the endpoint `main` of `acme`, which must exist. */
export const createEndpoint = Effect.flatMap(WebhookEndpoints, ({ create }) =>
  create(IntegratorId.make("acme"), { id: EndpointId.make("main"), url: "https://hooks.example.com/" })
).pipe(Effect.provide(endpoints(1)))
