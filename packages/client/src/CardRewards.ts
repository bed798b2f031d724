import { RequestPipeline } from "@card-rewards/domain/http/RequestPipeline"
import { BareIntegratorApi, BareSandboxApi } from "@card-rewards/domain/http/BareApi"
import { Context, Layer, Redacted } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { type Patience, repeated } from "./Retries.ts"

export type { Patience }

/** Where the service is, and the integrator's key. */
export interface CardRewardsOptions {
  /** For example `https://rewards.example.com`. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted
  /** How long a call goes on trying. */
  readonly patience?: Patience
}

/** A method for each operation of the production API, in groups: `users.balance({ params: { userId } })`. */
export interface ProductionOperations extends HttpApiClient.ForApi<typeof BareIntegratorApi> {}

/** The production API's operations and the sandbox's: `sandbox.moveClock({ payload: { now } })`. */
export interface SandboxOperations extends HttpApiClient.ForApi<typeof BareSandboxApi> {}

/**
 * The typed client of the production API, derived from its definition: a method for each operation, its answers decoded
 * and its errors tagged. Amounts are `bigint`s of smallest units, timestamps milliseconds since 1970. Every request may
 * be repeated: what is answered 503 or 429, or not at all, is sent again until {@link Patience} ends.
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

/** As {@link CardRewards}, with the operations of the sandbox: the simulated vault and the clock that can be moved. */
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
  HttpApiMiddleware.layerClient(RequestPipeline, ({ endpoint, next, request }) =>
    repeated(HttpClientRequest.setHeader(request, "x-api-key", Redacted.value(options.apiKey)), next, {
      ...options.patience,
      workMillis: endpoint.identifier === "simulate" ? simulationMillis : 0
    }))

/** A program's simulation works for a minute at most (decisions, section 9). */
const simulationMillis = 60_000
