/** Paginated lists as streams, for every list of the API: the caller passes the call that reads a page. */
import { Effect, Option, Stream } from "effect"

/** The query of the next page; empty for the first page. */
export interface PageRequest {
  readonly cursor?: string
}

/** The element type of a page's array. */
export type ItemOf<Page> = {
  [Key in keyof Page]-?: Page[Key] extends ReadonlyArray<infer Item> ? Item : never
}[keyof Page]

/**
 * The items of all pages, in order. A page is read when the consumer needs its items.
 * `items((query) => api.users.rewards({ params: { userId }, query: { ...query, limit: 100 } }))`.
 */
export const items = <Page extends { readonly next?: string }, E, R>(
  read: (query: PageRequest) => Effect.Effect<Page, E, R>
): Stream.Stream<ItemOf<Page>, E, R> =>
  Stream.paginate<PageRequest, ItemOf<Page>, E, R>({}, (query) =>
    Effect.map(read(query), (page) => [
      itemsOf(page),
      Option.map(Option.fromUndefinedOr(page.next), (cursor) => ({ cursor }))
    ]))

/** The position of a reader of a log: of the events, the journal or its seals; empty before the first item. */
export interface EventsRequest {
  readonly after?: bigint
}

/**
 * The items of a log behind a position, up to its present end. A page is read when the consumer needs its items.
 * `logItems((query) => api.journal.list({ query: { ...query, limit: 1_000 } }))`.
 */
export const logItems = <Page extends { readonly next: bigint }, E, R>(
  read: (query: EventsRequest) => Effect.Effect<Page, E, R>,
  start: EventsRequest = {}
): Stream.Stream<ItemOf<Page>, E, R> =>
  Stream.paginate<EventsRequest, ItemOf<Page>, E, R>(start, (query) =>
    Effect.map(read(query), (page) => {
      const items = itemsOf(page)
      return [items, items.length === 0 ? Option.none() : Option.some({ after: page.next })]
    }))

/** From which event `follow` begins, and how often it asks for new ones. */
export interface FollowOptions extends EventsRequest {
  /** The pause after an empty page; 1,000 by default. */
  readonly idleMillis?: number
}

/**
 * The pages of the event log that have events, without end: `follow((query) => api.events.list({ query }), { after })`.
 *
 * The stream has every event exactly once, in order. A consumer that stores a page's `next` in the same transaction as
 * the effects of its events, and passes it as `after` when it restarts, handles every event exactly once.
 */
export const follow = <Page extends { readonly events: ReadonlyArray<unknown>; readonly next: bigint }, E, R>(
  read: (query: EventsRequest) => Effect.Effect<Page, E, R>,
  { idleMillis = 1_000, ...start }: FollowOptions = {}
): Stream.Stream<Page, E, R> =>
  Stream.paginate<EventsRequest, Page, E, R>(start, (query) =>
    Effect.gen(function*() {
      const page = yield* read(query)
      const hasEvents = page.events.length > 0
      if (!hasEvents) yield* Effect.sleep(idleMillis)
      return [hasEvents ? [page] : [], Option.some({ after: page.next })]
    }))

/** The only array of a page, whatever its name, as {@link ItemOf} has it in types. */
const itemsOf = <Page extends object>(page: Page): ReadonlyArray<ItemOf<Page>> =>
  Object.values(page).find((value) => Array.isArray(value)) ?? []
