/** Responses as text, for what the typed client would decode and print again. */
import { Effect, Redacted, Schema } from "effect"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { sendWithRetries } from "../Retries.ts"
import type { Connection } from "./Connection.ts"
import { messageOf, Refused } from "./Exit.ts"

/** The service does not answer, or asks to try again later. */
export class ServiceAway extends Schema.TaggedError<ServiceAway>()("ServiceAway", { message: Schema.String }) {}

/**
 * Reads a path of the service: the body of a response 200. Fails with `ServiceAway` after 30 s of 503 or 429, or four
 * lost responses.
 */
export type Reader = (
  path: string,
  query: Readonly<Record<string, string>>,
  accept?: string
) => Effect.Effect<string, ServiceAway | Refused>

/** A reader with the key of an integrator. */
export const makeReader = Effect.fnUntraced(function*(
  { apiKey, baseUrl }: Connection
): Effect.fn.Return<Reader, never, HttpClient.HttpClient> {
  const client = yield* HttpClient.HttpClient
  return Effect.fnUntraced(function*(path, query, accept = "application/json") {
    const request = HttpClientRequest.get(`${baseUrl}${path}`).pipe(
      HttpClientRequest.setUrlParams(query),
      HttpClientRequest.setHeaders({ "x-api-key": Redacted.value(apiKey), accept })
    )
    const response = yield* sendWithRetries(request, client.execute, { workMillis: 0 })
    yield* expectOk(path, response)
    return yield* response.text
  }, Effect.catchTag("HttpClientError", (error) => new ServiceAway({ message: messageOf(error) })))
})

const expectOk = Effect.fnUntraced(function*(path: string, { status }: HttpClientResponse.HttpClientResponse) {
  if (status === 200) return
  if (status === 429 || status >= 500) return yield* new ServiceAway({ message: `The service answers ${status}` })
  return yield* new Refused({
    message: status === 401
      ? "The service does not accept the API key"
      : status === 403
      ? "The integrator is suspended"
      : `GET ${path} is answered ${status}: is --base-url the address of the service?`
  })
})

/** The body of a response is another one than that of the service. */
export const unexpected = (path: string): Refused =>
  new Refused({ message: `GET ${path} is not answered as expected: is --base-url the address of the service?` })
