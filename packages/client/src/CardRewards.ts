import { RequestPipeline } from "@card-rewards/domain/http/RequestPipeline"
import { maxSimulationMillis, maxSimulationWaitMillis } from "@card-rewards/domain/Simulation"
import { BareIntegratorApi, BareSandboxApi } from "@card-rewards/domain/http/BareApi"
import { Context, Effect, Layer, Redacted } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest } from "effect/http"
import { HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { sendWithRetries, type Timeouts } from "./Retries.ts"

export type { Timeouts }

/** The service's address and the integrator's API key. */
export interface CardRewardsOptions {
  /** For example `https://rewards.example.com`. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted
  /** Bounds of each call and of each of its attempts. */
  readonly timeouts?: Timeouts
}

/** The operations of the production API, a method each, by group: `users.balance({ params: { userId } })`. */
export interface ProductionOperations extends HttpApiClient.ForApi<typeof BareIntegratorApi> {}

/** The operations of the production API and of the sandbox: `sandbox.moveClock({ payload: { now } })`. */
export interface SandboxOperations extends HttpApiClient.ForApi<typeof BareSandboxApi> {}

/**
 * The typed client of the production API, derived from its definition: a method for each operation, with decoded
 * responses and tagged errors. Amounts are `bigint`s of smallest units, timestamps are milliseconds since 1970. After
 * 503, 429 or a lost response the client sends any request again within {@link Timeouts}.
 */
export class CardRewards extends Context.Service<CardRewards, ProductionOperations>()(
  "@card-rewards/client/CardRewards"
) {
  /** Needs an `HttpClient`, such as `FetchHttpClient.layer` of `effect/http`. */
  static readonly layer = (options: CardRewardsOptions): Layer.Layer<CardRewards, never, HttpClient.HttpClient> =>
    Layer.effect(CardRewards, HttpApiClient.make(BareIntegratorApi, transport(options))).pipe(
      Layer.provide(authorization(options))
    )
}

/** {@link CardRewards} with the operations of the sandbox: its simulated vault and its movable clock. */
export class CardRewardsSandbox extends Context.Service<CardRewardsSandbox, SandboxOperations>()(
  "@card-rewards/client/CardRewardsSandbox"
) {
  /** Needs an `HttpClient`, such as `FetchHttpClient.layer` of `effect/http`. */
  static readonly layer = (
    options: CardRewardsOptions
  ): Layer.Layer<CardRewardsSandbox, never, HttpClient.HttpClient> =>
    Layer.effect(CardRewardsSandbox, HttpApiClient.make(BareSandboxApi, transport(options))).pipe(
      Layer.provide(authorization(options))
    )
}

const transport = (options: CardRewardsOptions) => ({
  transformClient: HttpClient.mapRequest(HttpClientRequest.prependUrl(options.baseUrl))
})

const authorization = (options: CardRewardsOptions) =>
  HttpApiMiddleware.layerClient(RequestPipeline, ({ endpoint, next, request }) => {
    const key = Redacted.value(options.apiKey)
    if (!/^[\x21-\x7e]+$/.test(key)) return unusableKey(request)
    return sendWithRetries(HttpClientRequest.setHeader(request, "x-api-key", key), next, {
      ...options.timeouts,
      isRotation: endpoint.identifier === "rotateSecret",
      workMillis: endpoint.identifier === "simulate" ? maxSimulationMillis + maxSimulationWaitMillis : 0
    })
  })

/** `fetch` would print a key that no header can have, such as one with the line break of its file. */
const unusableKey = (request: HttpClientRequest.HttpClientRequest) =>
  Effect.fail(
    new HttpClientError.HttpClientError({
      reason: new HttpClientError.EncodeError({ request, description: "apiKey must be visible ASCII characters" })
    })
  )
