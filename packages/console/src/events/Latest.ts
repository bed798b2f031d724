import type { EventPage, VaultMovement, WebhookEvent, WebhookEventKind } from "@card-rewards/domain/Event"
import { Effect } from "effect"

/** How many of the newest events a tab keeps; what else was read is forgotten. */
export const keptEvents = 300

const pageSize = 100

/** Pages that one read on takes at most; they are short where events are large. */
const maxPages = 6

/** Reads a page of the event log. */
export type ReadEvents<E> = (query: {
  readonly after: bigint
  readonly limit: number
  readonly kind?: WebhookEventKind
}) => Effect.Effect<EventPage, E>

/** An event with what the pages show of it: no list of a claim's rewards, which can be long. */
export interface RecentEvent {
  readonly id: string
  readonly kind: WebhookEventKind
  readonly at: number
  readonly integratorId: string
  readonly userId?: string
  /** Of a deposit, withdrawal or claim. */
  readonly movement?: Pick<typeof VaultMovement.Type, "reference" | "amount" | "balance">
}

/** The newest events, oldest first, as far as this tab has read them. */
export interface Latest {
  readonly events: ReadonlyArray<RecentEvent>
  /** The number of the last event that was read. */
  readonly next: bigint
}

/**
 * Reads on from what is known. At first, and where more than {@link keptEvents} came since, it starts that many before
 * the end of the log: the cost depends neither on the log's length nor on what happened while the tab was away.
 */
export const readLatest = <E>(read: ReadEvents<E>, known?: Latest): Effect.Effect<Latest, E> =>
  Effect.gen(function* () {
    const end = yield* findEnd(read, known?.next ?? 0n)
    if (known !== undefined && end === known.next) return known
    const start = end > BigInt(keptEvents) ? end - BigInt(keptEvents) : 0n
    const isContinued = known !== undefined && known.next >= start
    let events = isContinued ? known.events : []
    let next = isContinued ? known.next : start
    for (let pages = 0; pages < maxPages && next < end; pages++) {
      const page = yield* read({ after: next, limit: pageSize })
      if (page.events.length === 0) break
      events = [...events, ...page.events.map(shorten)].slice(-keptEvents)
      next = page.next
    }
    return { events, next }
  })

/** A kind of event that is rare, because only a person or a monitor causes it. Its body is small. */
const rareKind: WebhookEventKind = "webhook.ping"

/**
 * The number of the newest event, from one that is not newer. A page of one kind that is not full reaches to the end of
 * the log, so that one read of a rare kind is enough. Where the kind is not rare, doubling and bisecting take some 60
 * reads at most.
 */
const findEnd = <E>(read: ReadEvents<E>, from: bigint): Effect.Effect<bigint, E> =>
  Effect.gen(function* () {
    let after = from
    let reached = from
    let beyond: bigint | undefined
    for (;;) {
      const { events, next } = yield* read({ after, limit: pageSize, kind: rareKind })
      const isAtEnd = events.length < pageSize
      if (isAtEnd && (next > after || after === reached)) return next
      if (isAtEnd) beyond = after
      else reached = next
      // events that come meanwhile can move the end beyond a number that was after it
      after = beyond !== undefined && beyond > reached ? (reached + beyond) / 2n : reached * 2n
    }
  })

const shorten = ({ createdAt, data, id, integratorId, kind }: WebhookEvent): RecentEvent => ({
  id,
  kind,
  at: createdAt,
  integratorId,
  ...("userId" in data ? { userId: data.userId } : {}),
  ...("reference" in data
    ? { movement: { reference: data.reference, amount: data.amount, balance: data.balance } }
    : {})
})
