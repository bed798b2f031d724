import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Duration, Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import { ServeError } from "effect/http/HttpServerError"
import type { ListenOptions } from "node:net"
import { BoundedServer } from "./Server/BoundedServer.ts"
import * as Listeners from "./Server/Listeners.ts"

/** How long a stop waits for requests in flight. */
export const stopWithinSeconds = 10

/** How long a client may take to send a whole request. */
const requestTimeoutMillis = 30_000

/** How often that is checked. */
const requestCheckMillis = 5_000

/**
 * Connections that the kernel keeps until this process accepts them, at most. While more come, the kernel drops their
 * packets, and a client tries again after 1 s, 3 s and 7 s: Node's own 511 are full after an instant of a flood.
 */
const backlog = 4_096

/** How long a connection may be silent, also one of a client that reads no answer; the longest request takes 60 s. */
const silentMillis = 90_000

/**
 * Node's server. At the end it stops accepting, closes unused connections after another half second, lets requests in
 * flight finish, for 10 s at most, and then closes the remaining connections. It never upgrades a connection: such a
 * request is answered as any other, and all timeouts hold (decisions, section 3).
 */
export const layer = (options: {
  readonly host: string
  readonly port: number
  /** The integrator of a request's key, where that is known without a look-up. */
  readonly integratorOf?: (apiKey: string) => string | undefined
  /** For tests. */
  readonly silentMillis?: number
}): Layer.Layer<HttpServer.HttpServer, ServeError> =>
  Layer.unwrap(Effect.gen(function*() {
    const { host, integratorOf = () => undefined, port } = options
    if (port !== 0) yield* isFree({ host, port })
    const server = new BoundedServer({
      requestTimeout: requestTimeoutMillis,
      connectionsCheckingInterval: requestCheckMillis,
      shouldUpgradeCallback: () => false,
      integratorOf: ({ headers }) => {
        const apiKey = headers["x-api-key"]
        return typeof apiKey === "string" ? integratorOf(apiKey) : undefined
      }
    })
    server.timeout = options.silentMillis ?? silentMillis
    return Layer.effectDiscard(
      // runs between the graceful stop, which begins where requests are served, and the wait for the server's end
      Effect.gen(function*() {
        yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
        const { address } = yield* HttpServer.HttpServer
        if ("port" in address) server.listenWidely({ host, port: address.port, backlog })
      })
    ).pipe(
      Layer.provideMerge(
        NodeHttpServer.layerServer(() => server, {
          host,
          port,
          backlog,
          reusePort: Listeners.reusePort,
          gracefulShutdownTimeout: Duration.seconds(stopWithinSeconds)
        })
      )
    )
  }))

const isFree = (address: ListenOptions) =>
  Effect.tryPromise({ try: () => Listeners.isFree(address), catch: (cause) => new ServeError({ cause }) })
