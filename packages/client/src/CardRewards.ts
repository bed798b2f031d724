import { Authorization } from "@card-rewards/domain/http/Authorization"
import { IntegratorApi, SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Context, Layer, Redacted } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient, HttpApiMiddleware } from "effect/http-api"

/** Where the service is, and the integrator's key. */
export interface CardRewardsOptions {
  /** For example `https://rewards.example.com`. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted
}

/**
 * The typed client of the production API, derived from its definition: a method for each operation, its answers decoded
 * and its errors tagged. Amounts are `bigint`s of smallest units, timestamps milliseconds since 1970.
 */
export class CardRewards extends Context.Service<CardRewards, HttpApiClient.ForApi<typeof IntegratorApi>>()(
  "@card-rewards/client/CardRewards"
) {
  /** Needs an `HttpClient`, such as `FetchHttpClient.layer` of `effect/http`. */
  static readonly layer = (options: CardRewardsOptions): Layer.Layer<CardRewards, never, HttpClient.HttpClient> =>
    Layer.effect(CardRewards, HttpApiClient.make(IntegratorApi, transport(options))).pipe(
      Layer.provide(authorization(options))
    )
}

/** As {@link CardRewards}, with the operations of the sandbox: the simulated vault and the clock that can be moved. */
export class CardRewardsSandbox extends Context.Service<CardRewardsSandbox, HttpApiClient.ForApi<typeof SandboxApi>>()(
  "@card-rewards/client/CardRewardsSandbox"
) {
  /** Needs an `HttpClient`, such as `FetchHttpClient.layer` of `effect/http`. */
  static readonly layer = (
    options: CardRewardsOptions
  ): Layer.Layer<CardRewardsSandbox, never, HttpClient.HttpClient> =>
    Layer.effect(CardRewardsSandbox, HttpApiClient.make(SandboxApi, transport(options))).pipe(
      Layer.provide(authorization(options))
    )
}

const transport = (options: CardRewardsOptions) => ({
  transformClient: HttpClient.mapRequest(HttpClientRequest.prependUrl(options.baseUrl))
})

const authorization = (options: CardRewardsOptions) =>
  HttpApiMiddleware.layerClient(Authorization, ({ next, request }) =>
    next(HttpClientRequest.setHeader(request, "x-api-key", Redacted.value(options.apiKey))))
