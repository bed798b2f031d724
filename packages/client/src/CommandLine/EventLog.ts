/** The event log as text, so that an event stays the bytes that the service stored. */
import { LogNumber } from "@card-rewards/domain/Pagination"
import { Effect, Schema } from "effect"
import type { HttpClient } from "effect/http"
import type { EventsRequest } from "../Pages.ts"
import type { Connection } from "./Connection.ts"
import type { Refused } from "./Exit.ts"
import { makeReader, type ServiceAway, unexpected } from "./Reader.ts"

/** An event of the log. */
export interface LoggedEvent {
  readonly id: string
  /** One of `WebhookEventKind`, or a kind of a later version of the service. */
  readonly kind: string
  readonly integratorId: string
  /** The reward of a `reward.*` event. */
  readonly rewardId: string | undefined
  /** The body of its webhook, byte for byte. */
  readonly body: string
}

/** At most 100 events, and the position behind them. */
export interface LogPage {
  readonly events: ReadonlyArray<LoggedEvent>
  readonly next: bigint
}

/** The integrator's event log. */
export interface EventLog {
  /**
   * The events after a position, oldest first. Fails with `ServiceAway` after 30 s of 503 or 429, or four lost
   * responses.
   */
  readonly read: (query: EventsRequest) => Effect.Effect<LogPage, ServiceAway | Refused>
  /** The position behind the newest event. */
  readonly end: Effect.Effect<bigint, ServiceAway | Refused>
}

/** The event log of the integrator that owns the key. */
export const makeEventLog = Effect.fnUntraced(function*(
  connection: Connection
): Effect.fn.Return<EventLog, never, HttpClient.HttpClient> {
  const reader = yield* makeReader(connection)
  const get = ({ after = 0n }: EventsRequest, more: Readonly<Record<string, string>>) =>
    Effect.flatMap(reader(path, { after: `${after}`, limit: "100", ...more }), pageOf)
  return {
    read: (query) => get(query, {}),
    // a page of a rare kind skips the events of other kinds, and the empty one is at the end
    end: Effect.gen(function*() {
      for (let after = 0n;;) {
        const { events, next } = yield* get({ after }, { kind: "webhook.ping" })
        if (events.length === 0) return next
        after = next
      }
    })
  }
})

const path = "/v1/events"

const Page = Schema.fromJsonString(Schema.Struct({
  events: Schema.Array(Schema.Struct({
    id: Schema.String,
    kind: Schema.String,
    integratorId: Schema.String,
    data: Schema.Struct({ id: Schema.optionalKey(Schema.String) })
  })),
  next: LogNumber
}))

const decodePage = Schema.decodeUnknownEffect(Page)

const pageOf = Effect.fnUntraced(function*(text: string) {
  const bodies = elementTexts(text)
  const page = yield* Effect.mapError(decodePage(text), () => unexpected(path))
  const events = page.events.map(({ data, id, integratorId, kind }, index): LoggedEvent => ({
    id,
    kind,
    integratorId,
    rewardId: kind.startsWith("reward.") ? data.id : undefined,
    body: bodies[index] ?? ""
  }))
  return { events, next: page.next }
})

/** The objects in the array of a page, each as the text that it is in the page. */
export const elementTexts = (page: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  let depth = 0
  let start = 0
  for (const { 0: token, index } of page.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/g)) {
    if (token === "{" || token === "[") {
      // 1 is the page, 2 its array
      if (++depth === 3) start = index
    } else if (token === "}" || token === "]") {
      if (depth-- === 3) found.push(page.slice(start, index + 1))
    }
  }
  return found
}
