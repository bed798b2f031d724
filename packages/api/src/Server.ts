import { NodeHttpServer } from "@effect/platform-node"
import { Duration, Effect, Layer } from "effect"
import type { HttpServer } from "effect/http"
import type { ServeError } from "effect/http/HttpServerError"
import { createServer } from "node:http"

/** How long a stop waits for requests in flight. */
export const stopWithinSeconds = 10

/** How long a client may take to send a whole request. */
const requestTimeoutMillis = 30_000

/**
 * Node's server. At the end it stops accepting, lets requests in flight finish, for 10 s at most, and then closes
 * what connections there still are.
 */
export const layer = (options: {
  readonly host: string
  readonly port: number
}): Layer.Layer<HttpServer.HttpServer, ServeError> =>
  Layer.suspend(() => {
    const server = createServer({ requestTimeout: requestTimeoutMillis })
    return Layer.effectDiscard(
      // runs between the graceful stop, which begins where requests are served, and the wait for the server's end
      Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    ).pipe(
      Layer.provideMerge(
        NodeHttpServer.layerServer(() => server, {
          ...options,
          gracefulShutdownTimeout: Duration.seconds(stopWithinSeconds)
        })
      )
    )
  })
