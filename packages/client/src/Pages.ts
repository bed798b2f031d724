/** Lists that come in pages, as streams. Each is given the call that reads a page, so it works for every such list. */
import { Effect, Option, Stream } from "effect"

/** What the next page of a list is asked for; nothing, for the first. */
export interface PageRequest {
  readonly cursor?: string
}

/** What a page lists: the elements of its arrays. */
export type ItemOf<Page> = {
  [Key in keyof Page]-?: Page[Key] extends ReadonlyArray<infer Item> ? Item : never
}[keyof Page]

/**
 * The items of all pages; a page is read when its items are wanted.
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

/** Where a follower of the events is; nothing, before the first. */
export interface EventsRequest {
  readonly after?: bigint
}

export interface FollowOptions extends EventsRequest {
  /** The pause after a page without events; 1,000 when left out. */
  readonly idleMillis?: number
}

/**
 * The pages of the event log that have events, for ever: `follow((query) => api.events.list({ query }), { after })`.
 *
 * Every event comes exactly once and in order. Whoever keeps a page's `next` together with what its events did, and
 * starts again with that as `after`, misses none and sees none twice.
 */
export const follow = <Page extends { readonly events: ReadonlyArray<unknown>; readonly next: bigint }, E, R>(
  read: (query: EventsRequest) => Effect.Effect<Page, E, R>,
  { idleMillis = 1_000, ...start }: FollowOptions = {}
): Stream.Stream<Page, E, R> =>
  Stream.paginate<EventsRequest, Page, E, R>(start, (query) =>
    Effect.gen(function*() {
      const page = yield* read(query)
      const found = page.events.length > 0
      if (!found) yield* Effect.sleep(idleMillis)
      return [found ? [page] : [], Option.some({ after: page.next })]
    }))

/** A page has one array, whatever its name: this is what {@link ItemOf} says in types. */
const itemsOf = <Page extends object>(page: Page): ReadonlyArray<ItemOf<Page>> =>
  Object.values(page).find((value) => Array.isArray(value)) ?? []
