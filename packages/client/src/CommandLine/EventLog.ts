/** The event log as text, so that an event stays the bytes that the service stored. */
import { LogNumber } from "@card-rewards/domain/Pagination"
import { Effect, Redacted, Schema } from "effect"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import type { EventsRequest } from "../Pages.ts"
import { sendWithRetries } from "../Retries.ts"
import type { Connection } from "./Connection.ts"
import { messageOf, Refused } from "./Exit.ts"

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

/** The service does not answer, or asks to try again later. */
export class ServiceAway extends Schema.TaggedError<ServiceAway>()("ServiceAway", { message: Schema.String }) {}

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
  { apiKey, baseUrl }: Connection
): Effect.fn.Return<EventLog, never, HttpClient.HttpClient> {
  const client = yield* HttpClient.HttpClient
  const get = Effect.fnUntraced(function*(query: EventsRequest, more: Readonly<Record<string, string>>) {
    const request = HttpClientRequest.get(`${baseUrl}/v1/events`).pipe(
      HttpClientRequest.setUrlParams({ after: `${query.after ?? 0n}`, limit: "100", ...more }),
      HttpClientRequest.setHeader("x-api-key", Redacted.value(apiKey))
    )
    const response = yield* sendWithRetries(request, client.execute, { workMillis: 0 })
    yield* expectOk(response)
    return yield* pageOf(yield* response.text)
  }, Effect.catchTag("HttpClientError", (error) => new ServiceAway({ message: messageOf(error) })))
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

const expectOk = Effect.fnUntraced(function*({ status }: HttpClientResponse.HttpClientResponse) {
  if (status === 200) return
  if (status === 429 || status >= 500) return yield* new ServiceAway({ message: `The service answers ${status}` })
  return yield* new Refused({
    message: status === 401
      ? "The service does not accept the API key"
      : status === 403
      ? "The integrator is suspended"
      : `GET /v1/events is answered ${status}: is --base-url the address of the service?`
  })
})

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
  const page = yield* decodePage(text).pipe(Effect.mapError(() =>
    new Refused({ message: "GET /v1/events is not answered as expected: is --base-url the address of the service?" })
  ))
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
