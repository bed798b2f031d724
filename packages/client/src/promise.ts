/** The client for those who do not use Effect: promises, async iterables, and errors that are thrown. */
import type * as Events from "@card-rewards/domain/Event"
import type { BareIntegratorApi, BareSandboxApi } from "@card-rewards/domain/http/BareApi"
import type * as Programs from "@card-rewards/domain/Program"
import type * as Rewards from "@card-rewards/domain/Reward"
import type * as SpendEvents from "@card-rewards/domain/SpendEvent"
import { type Context, Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { CardRewards, type CardRewardsOptions, CardRewardsSandbox, type Patience } from "./CardRewards.ts"
import * as Pages from "./Pages.ts"
import { type CallOptions, type Plain, type PromiseClient, promised } from "./PromiseClient.ts"
import * as WebhookSignature from "./WebhookSignature.ts"

export * from "./Errors.ts"
export type { CallOptions, Patience, Plain }
export type { EventsRequest, FollowOptions, PageRequest } from "./Pages.ts"
export type { WebhookDelivery, WebhookHeaders } from "./WebhookSignature.ts"

/** Where the service is, and the integrator's key. */
export interface ConnectOptions extends Omit<CardRewardsOptions, "apiKey"> {
  readonly apiKey: string
  /** Instead of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
}

/** The production API: `client.users.balance({ params: { userId } })`. */
export interface CardRewardsClient extends PromiseClient<typeof BareIntegratorApi> {}

/** The sandbox's API: production's, with `client.sandbox`. */
export interface CardRewardsSandboxClient extends PromiseClient<typeof BareSandboxApi> {}

/** What a webhook says, and an entry of the event log; `kind` tells which. */
export type WebhookEvent = Plain<Events.WebhookEvent>
export type Reward = Plain<Rewards.Reward>
export type SpendEvent = Plain<SpendEvents.SpendEvent>
export type ProgramDefinition = Plain<Programs.ProgramDefinition>

/** The client of the production API. Nothing is sent before the first call. */
export const connect = (options: ConnectOptions): CardRewardsClient =>
  promised<typeof BareIntegratorApi>(built(CardRewards, CardRewards.layer, options))

/** The client of the sandbox's API. Nothing is sent before the first call. */
export const connectSandbox = (options: ConnectOptions): CardRewardsSandboxClient =>
  promised<typeof BareSandboxApi>(built(CardRewardsSandbox, CardRewardsSandbox.layer, options))

/**
 * The items of all pages; a page is read when its items are wanted.
 * `for await (const reward of items((query) => client.users.rewards({ params: { userId }, query })))`.
 */
export const items = <Page extends { readonly next?: string }>(
  read: (query: Pages.PageRequest, options: { readonly signal: AbortSignal }) => Promise<Page>
): AsyncIterable<Pages.ItemOf<Page>> => Stream.toAsyncIterable(Pages.items((query) => awaited(read, query)))

/**
 * The pages of the event log that have events, until the loop is left:
 * `for await (const { events, next } of follow((query) => client.events.list({ query }), { after }))`.
 *
 * Every event comes exactly once and in order. Whoever keeps a page's `next` together with what its events did, and
 * starts again with that as `after`, misses none and sees none twice.
 */
export const follow = <Page extends { readonly events: ReadonlyArray<unknown>; readonly next: bigint }>(
  read: (query: Pages.EventsRequest, options: { readonly signal: AbortSignal }) => Promise<Page>,
  options?: Pages.FollowOptions
): AsyncIterable<Page> => Stream.toAsyncIterable(Pages.follow((query) => awaited(read, query), options))

/**
 * The event of a delivery that was signed with one of the secrets held, over this very body, within the tolerance.
 * Rejected with `SignatureRefused` (answer 400), `WebhookUnreadable` or `UnknownEvent` (answer 2xx).
 */
export const verifyWebhook = (delivery: WebhookSignature.WebhookDelivery): Promise<WebhookEvent> =>
  Effect.runPromise(WebhookSignature.verifyWebhook(delivery))

const built = <Id, Client>(
  service: Context.Key<Id, Client>,
  layer: (options: CardRewardsOptions) => Layer.Layer<Id, never, HttpClient.HttpClient>,
  { apiKey, fetch = globalThis.fetch, ...options }: ConnectOptions
): Client => {
  const transport = Layer.provide(FetchHttpClient.layer, Layer.succeed(FetchHttpClient.Fetch, fetch))
  const layers = Layer.provide(layer({ ...options, apiKey: Redacted.make(apiKey) }), transport)
  return Effect.runSync(Effect.provide(Effect.service(service), layers))
}

/** A rejection passes through as a defect: the loop throws what `read` was rejected with. */
const awaited = <Query, Page>(
  read: (query: Query, options: { readonly signal: AbortSignal }) => Promise<Page>,
  query: Query
): Effect.Effect<Page> => Effect.promise((signal) => read(query, { signal }))
