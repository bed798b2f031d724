import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { Context, Effect, Layer, Redacted } from "effect"
import { type ApiOptions, ApiServer } from "./ApiServer.ts"
import * as EventProcessing from "./EventProcessing.ts"
import { FreshDatabase, operators } from "./FreshDatabase.ts"
import { type Answer, exchange, makeAgent, type Sent } from "./HttpExchange.ts"
import { NetworkProxy } from "./NetworkProxy.ts"
import type { Send } from "./Requests.ts"

/**
 * The api over a database of its own, as raw HTTP: with the integrators `acme` and `other`, without a worker. Webhook
 * endpoints must be public, and a simulation is limited to one purchase.
 */
export class TestApi extends Context.Service<TestApi, {
  readonly port: number
  readonly databaseUrl: Redacted.Redacted
  /** The API keys of `acme` and of `other`. */
  readonly key: string
  readonly otherKey: string
  /** Sends a request as `acme`, or with the given key; without a key if that is empty. */
  readonly send: (method: string, path: string, sent?: Sent) => Effect.Effect<Answer>
}>()("@card-rewards/testing/TestApi") {
  /** With it come its parts: `ApiServer`, `FreshDatabase`, core's `Integrators` and a `SqlClient`. */
  static readonly layer = (options: ApiOptions = {}) =>
    Layer.effect(TestApi, make).pipe(
      Layer.provideMerge(ApiServer.layer({
        allowPrivateNetwork: false,
        simulationLimits: { transactions: 1, millis: 60_000 },
        ...options
      })),
      Layer.provideMerge(operators(options.environment ?? "sandbox")),
      Layer.provideMerge(FreshDatabase.layer)
    )

  /** The same, with a {@link NetworkProxy} between the api and its database. */
  static readonly behindProxy = (options: Omit<ApiOptions, "through"> = {}) =>
    Layer.unwrap(Effect.map(NetworkProxy, ({ through }) => TestApi.layer({ ...options, through }))).pipe(
      Layer.provideMerge(NetworkProxy.layer)
    )

  /** The api, and the processing of its events when the test calls it. */
  static readonly withProcessing = (options: ApiOptions = {}) =>
    EventProcessing.layer.pipe(Layer.provideMerge(TestApi.layer(options)))
}

const make = Effect.gen(function*() {
  const { baseUrl, port } = yield* ApiServer
  const { url } = yield* FreshDatabase
  const integrators = yield* Integrators
  const keyOf = (name: string) =>
    Effect.map(integrators.create(IntegratorId.make(name)), ({ apiKey }) => Redacted.value(apiKey))
  const key = yield* keyOf("acme")
  const otherKey = yield* keyOf("other")
  const agent = yield* makeAgent
  return TestApi.of({
    port,
    databaseUrl: url,
    key,
    otherKey,
    send: (method, path, sent) => Effect.orDie(exchange({ baseUrl, agent }, method, path, { key, ...sent }))
  })
})

/** A new integrator, and its requests. */
export const newIntegrator = Effect.fnUntraced(function*(name: string) {
  const api = yield* TestApi
  const integratorId = IntegratorId.make(name)
  const key = Redacted.value((yield* (yield* Integrators).create(integratorId)).apiKey)
  const send: Send = (method, path, json) => api.send(method, path, { key, json })
  return { integratorId, key, send }
})
