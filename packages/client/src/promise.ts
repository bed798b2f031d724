/** The client without Effect: promises, async iterables, and errors as rejections. */
import type * as Events from "@card-rewards/domain/Event"
import type { BareIntegratorApi, BareSandboxApi } from "@card-rewards/domain/http/BareApi"
import type * as Programs from "@card-rewards/domain/Program"
import type * as Rewards from "@card-rewards/domain/Reward"
import type * as SpendEvents from "@card-rewards/domain/SpendEvent"
import { type Context, Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { CardRewards, type CardRewardsOptions, CardRewardsSandbox, type Timeouts } from "./CardRewards.ts"
import * as Batches from "./Batches.ts"
import * as Pages from "./Pages.ts"
import { type CallOptions, type Plain, type PromiseClient, promised } from "./PromiseClient.ts"
import type { ExportedEntry } from "./ExportedEntry.ts"
import * as Balances from "./JournalBalances.ts"
import * as Verification from "./VerifyJournal.ts"
import * as WebhookSignature from "./WebhookSignature.ts"

export * from "./Errors.ts"
export type { CallOptions, Plain, Timeouts }
export type { Submitted, SubmitAllOptions } from "./Batches.ts"
export type { EventsRequest, FollowOptions, PageRequest } from "./Pages.ts"
export type { ExportedEntry } from "./ExportedEntry.ts"
export { EntryRefused, JournalBalances } from "./JournalBalances.ts"
export type { JournalAssetBalance, JournalUserBalance, JournalVaultMoney, Until } from "./JournalBalances.ts"
export { describeVerdict, KeptUnreadable } from "./VerifyJournal.ts"
export type { Consistent, ExportedSeal, JournalFault, JournalVerdict, KeptSeal, Unchanged } from "./VerifyJournal.ts"
export type { WebhookDelivery, WebhookHeaders } from "./WebhookSignature.ts"

/** The service's address and the integrator's API key. */
export interface ConnectOptions extends Omit<CardRewardsOptions, "apiKey"> {
  readonly apiKey: string
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
}

/** The production API: `client.users.balance({ params: { userId } })`. */
export interface CardRewardsClient extends PromiseClient<typeof BareIntegratorApi> {}

/** The sandbox's API: that of production and `client.sandbox`. */
export interface CardRewardsSandboxClient extends PromiseClient<typeof BareSandboxApi> {}

/** The body of a webhook and an entry of the event log; `kind` is the discriminator. */
export type WebhookEvent = Plain<Events.WebhookEvent>
export type Reward = Plain<Rewards.Reward>
export type SpendEvent = Plain<SpendEvents.SpendEvent>
export type ProgramDefinition = Plain<Programs.ProgramDefinition>

/** The client of the production API. It sends nothing before the first call. */
export const connect = (options: ConnectOptions): CardRewardsClient =>
  promised<typeof BareIntegratorApi>(built(CardRewards, CardRewards.layer, options))

/** The client of the sandbox's API. It sends nothing before the first call. */
export const connectSandbox = (options: ConnectOptions): CardRewardsSandboxClient =>
  promised<typeof BareSandboxApi>(built(CardRewardsSandbox, CardRewardsSandbox.layer, options))

/**
 * The items of all pages, in order. A page is read when the consumer needs its items.
 * `for await (const reward of items((query) => client.users.rewards({ params: { userId }, query })))`.
 */
export const items = <Page extends { readonly next?: string }>(
  read: (query: Pages.PageRequest, options: { readonly signal: AbortSignal }) => Promise<Page>
): AsyncIterable<Pages.ItemOf<Page>> => Stream.toAsyncIterable(Pages.items((query) => awaited(read, query)))

/**
 * The pages of the event log that have events, until the consumer leaves the loop:
 * `for await (const { events, next } of follow((query) => client.events.list({ query }), { after }))`.
 *
 * The iterable has every event exactly once, in order. A consumer that stores a page's `next` in the same transaction
 * as the effects of its events, and passes it as `after` when it restarts, handles every event exactly once.
 */
export const follow = <Page extends { readonly events: ReadonlyArray<unknown>; readonly next: bigint }>(
  read: (query: Pages.EventsRequest, options: { readonly signal: AbortSignal }) => Promise<Page>,
  options?: Pages.FollowOptions
): AsyncIterable<Page> => Stream.toAsyncIterable(Pages.follow((query) => awaited(read, query), options))

/**
 * The items of a log behind a position, up to its present end. A page is read when the consumer needs its items.
 * `for await (const entry of logItems((query) => client.journal.list({ query: { ...query, limit: 1_000 } })))`.
 */
export const logItems = <Page extends { readonly next: bigint }>(
  read: (query: Pages.EventsRequest, options: { readonly signal: AbortSignal }) => Promise<Page>,
  start?: Pages.EventsRequest
): AsyncIterable<Pages.ItemOf<Page>> =>
  Stream.toAsyncIterable(Pages.logItems((query) => awaited(read, query), start))

/**
 * Submits events batch by batch, and returns each one's result in their order; one batch at a time, when the consumer
 * needs its results:
 * `for await (const { index, result } of submitAll(events, (payload) => client.spendEvents.submitBatch({ payload })))`.
 *
 * Throws with the first batch that fails. What was submitted may be submitted again: go on with `from`, or from the
 * beginning.
 */
export const submitAll = <Event extends object, Result extends { readonly status: number }>(
  events: Items<Event>,
  submit: (
    payload: { readonly events: ReadonlyArray<Event> },
    options: { readonly signal: AbortSignal }
  ) => Promise<{ readonly results: ReadonlyArray<Result> }>,
  options?: Batches.SubmitAllOptions
): AsyncIterable<Batches.Submitted<Event, Result>> =>
  Stream.toAsyncIterable(Batches.submitAll(streamOf(events), (payload) => awaited(submit, payload), options))

/**
 * Returns the event of a delivery that was signed with one of the secrets over exactly this body, within the tolerance.
 * Rejects with `SignatureRefused` (respond 400), `WebhookUnreadable` (respond 400) or `UnknownEvent` (respond 2xx).
 */
export const verifyWebhook = (delivery: WebhookSignature.WebhookDelivery): Promise<WebhookEvent> =>
  Effect.runPromise(WebhookSignature.verifyWebhook(delivery))

/** Any number of items, of which one after the other is read. */
type Items<A> = Iterable<A> | AsyncIterable<A>

/** An export of the journal, and what the integrator has kept of earlier ones. */
export interface JournalExport {
  /** All entries from the first one, in the order of the export. */
  readonly entries: Items<ExportedEntry>
  /** All seals from the first one, read before the entries: the last seal may cover no entry that is not there. */
  readonly seals: Items<Verification.ExportedSeal>
  /** Seals that were kept, oldest first: whole ones, or a hash and the number of the seal or of its last entry. */
  readonly kept?: Items<Verification.KeptSeal>
  /** The entries of an older export, all from the first one. With them a changed entry is named exactly. */
  readonly keptEntries?: Items<ExportedEntry>
}

/**
 * Recomputes the hash chain over the entries, and compares it with the present seals and with those that were kept. A
 * kept seal proves every entry up to its last one; entries behind the last kept seal are only consistent. Resolves to
 * `Unchanged`, or to `Consistent` where no seal was kept, or to the first fault.
 *
 * Needs no network, and memory for one seal's entries, at most 1,000. Rejects with `KeptUnreadable` where the kept
 * seals cannot be read or are not in order, or the older export is not whole.
 */
export const verifyJournal = ({ entries, kept = [], keptEntries = [], seals }: JournalExport) =>
  Effect.runPromise(Verification.verifyJournal({
    entries: streamOf(entries),
    seals: streamOf(seals),
    kept: streamOf(kept),
    keptEntries: streamOf(keptEntries)
  }))

/**
 * The balances after all entries, or after those up to an instant, which are read from the first one. Rejects with
 * `EntryRefused`. For many instants in one pass, add the entries to `JournalBalances`.
 */
export const balancesOf = (
  entries: Items<ExportedEntry>,
  options?: { readonly until?: Balances.Until }
): Promise<Balances.JournalBalances> => Effect.runPromise(Balances.balancesOf(streamOf(entries), options))

const built = <Id, Client>(
  service: Context.Key<Id, Client>,
  layer: (options: CardRewardsOptions) => Layer.Layer<Id, never, HttpClient.HttpClient>,
  { apiKey, fetch = globalThis.fetch, ...options }: ConnectOptions
): Client => {
  const transport = Layer.provide(FetchHttpClient.layer, Layer.succeed(FetchHttpClient.Fetch, fetch))
  const layers = Layer.provide(layer({ ...options, apiKey: Redacted.make(apiKey) }), transport)
  return Effect.runSync(Effect.provide(Effect.service(service), layers))
}

/**
 * A failure of the source becomes a defect, so that the loop throws it. Of an iterable that is no array one item after
 * the other is read, and it is closed at the end.
 */
const streamOf = <A>(source: Items<A>): Stream.Stream<A> => {
  if (Array.isArray(source)) return Stream.fromIterable(source)
  const items = Symbol.asyncIterator in source ? source : eachOf(source)
  return Stream.orDie(Stream.fromAsyncIterable(items, (error) => error))
}

async function* eachOf<A>(source: Iterable<A>): AsyncGenerator<A, void> {
  yield* source
}

/** A rejection becomes a defect, so that the loop throws the very error with which `call` rejected. */
const awaited = <Request, A>(
  call: (request: Request, options: { readonly signal: AbortSignal }) => Promise<A>,
  request: Request
): Effect.Effect<A> => Effect.promise((signal) => call(request, { signal }))
