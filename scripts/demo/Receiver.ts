import { verifyWebhook } from "@card-rewards/client/WebhookSignature"
import type { WebhookEvent } from "@card-rewards/domain/Event"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Data, Effect, Layer, Queue } from "effect"
import { HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"

const timeout = "60 seconds"

/** Webhooks did not arrive in time. */
export class NotReceived extends Data.TaggedError("NotReceived")<{ readonly message: string }> {}

/** An integrator's webhook receiver, which verifies every signature. */
export interface Receiver {
  readonly url: string
  /** Sets the endpoint's signing secret; before that, deliveries are answered 503 and are sent again. */
  readonly trust: (secret: string) => void
  /** The next events, in order of arrival; fails where they do not come within a minute. */
  readonly take: (count: number) => Effect.Effect<ReadonlyArray<WebhookEvent>, NotReceived>
}

/** Listens on a free port of this machine until the scope closes. */
export const receiveWebhooks = Effect.gen(function*() {
  const events = yield* Queue.unbounded<WebhookEvent>()
  const secrets: Array<string> = []
  const answer = Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const body = yield* request.text
    if (secrets.length === 0) return HttpServerResponse.empty({ status: 503 })
    yield* Queue.offer(events, yield* verifyWebhook({ body, headers: request.headers, secrets }))
    return HttpServerResponse.empty()
  }).pipe(Effect.catchCause(() => Effect.succeed(HttpServerResponse.empty({ status: 400 }))))
  const server = yield* Layer.build(NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 0 }))
  yield* HttpServer.serveEffect(answer).pipe(Effect.provideContext(server))
  const { address } = yield* HttpServer.HttpServer.pipe(Effect.provideContext(server))
  const receiver: Receiver = {
    url: `http://127.0.0.1:${"port" in address ? address.port : 0}/webhooks`,
    trust: (secret) => secrets.push(secret),
    take: (count) =>
      Effect.timeoutOrElse(Queue.takeN(events, count), {
        duration: timeout,
        orElse: () => Effect.fail(new NotReceived({ message: `No ${count} webhooks came within ${timeout}` }))
      })
  }
  return receiver
})
