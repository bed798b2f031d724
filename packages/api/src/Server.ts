import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Duration, Effect, Layer } from "effect"
import type { HttpServer } from "effect/http"
import type { ServeError } from "effect/http/HttpServerError"
import { type IncomingMessage, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"

/** How long a stop waits for requests in flight. */
export const stopWithinSeconds = 10

/** How long a stop leaves unused connections open: a request may be on its way, and is answered with `connection: close`. */
const lettingGoMillis = 500

/** How long a client may take to send a whole request. */
const requestTimeoutMillis = 30_000

/** How often that is looked at. */
const requestCheckMillis = 5_000

/** Connections that this process keeps open; further ones are closed as they come. */
const maxConnections = 10_000

/** How long a connection may be silent, of a client that reads no answer too; the longest request works for 60 s. */
const silentMillis = 90_000

/**
 * Node's server. At the end it stops accepting, lets go of connections that nobody uses for another half second, lets requests
 * in flight finish, for 10 s at most, and then closes what connections there still are.
 */
export const layer = (options: {
  readonly host: string
  readonly port: number
  /** For tests. */
  readonly silentMillis?: number
}): Layer.Layer<HttpServer.HttpServer, ServeError> =>
  Layer.suspend(() => {
    const server = new LettingGo({
      requestTimeout: requestTimeoutMillis,
      connectionsCheckingInterval: requestCheckMillis
    })
    server.maxConnections = maxConnections
    server.timeout = options.silentMillis ?? silentMillis
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

/**
 * Node's server, closed, keeps serving its kept-alive connections and waits for those that never sent anything. This
 * one says `connection: close` in every answer from then on, so that clients go elsewhere, and closes what is unused.
 */
class LettingGo extends Server<typeof IncomingMessage, typeof Answer> {
  #closing = false
  #lettingGo = false
  readonly #unanswered = new Set<Answer>()
  readonly #unused = new Set<Socket>()

  constructor(options: { readonly requestTimeout: number; readonly connectionsCheckingInterval: number }) {
    super({ ...options, ServerResponse: Answer })
    this.on("connection", (socket: Socket) => {
      this.#unused.add(socket)
      socket.once("close", () => this.#unused.delete(socket))
    })
    const begin = ({ socket }: IncomingMessage, response: Answer) => {
      this.#unused.delete(socket)
      this.#unanswered.add(response)
      if (this.#closing) response.setHeader("connection", "close")
      response.once("close", () => {
        this.#unanswered.delete(response)
        if (this.#closing) this.closeIdleConnections()
      })
    }
    // a request that asks whether it may send its body is told of under another name
    this.on("request", begin).on("checkContinue", begin)
  }

  override close(callback?: (error?: Error) => void): this {
    this.#closing = true
    for (const response of this.#unanswered) if (!response.headersSent) response.setHeader("connection", "close")
    // @effect-diagnostics-next-line globalTimers:off -- Node's server is no fiber
    setTimeout(() => {
      this.#lettingGo = true
      for (const socket of this.#unused) if (socket.bytesRead === 0) socket.destroySoon()
      this.closeIdleConnections()
    }, lettingGoMillis).unref()
    return super.close(callback)
  }

  /** Node calls it as soon as it closes: a request that is on its way then would be lost. */
  override closeIdleConnections(): void {
    if (this.#lettingGo) super.closeIdleConnections()
  }
}

/**
 * Node's answer, whose head and text go out in one write. Where it is told to hold a body against its `content-length`, it adds
 * an empty chunk; the length of what is sent here is always counted from the text itself.
 */
class Answer extends ServerResponse {}
Object.defineProperty(Answer.prototype, "strictContentLength", { get: () => false, set: () => {} })
