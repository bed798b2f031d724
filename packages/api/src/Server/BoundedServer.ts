import { IncomingMessage, Server, type ServerOptions } from "node:http"
import type { Socket } from "node:net"
import { Connection, type WaitingCount } from "./Connection.ts"
import { Response } from "./Response.ts"

/**
 * How long a stop leaves unused connections open: a request may be in transit, and is answered with
 * `connection: close`.
 */
const unusedMillis = 500

type Options = Pick<
  ServerOptions<typeof IncomingMessage, typeof Response>,
  "requestTimeout" | "connectionsCheckingInterval" | "shouldUpgradeCallback"
>

/**
 * Node's server with two changes. Closed, Node's keeps serving its kept-alive connections and waits for those that
 * never sent anything; this one says `connection: close` in every answer from then on, so that clients go elsewhere,
 * and closes what is unused. And of the requests that a client pipelines on one connection it handles 16 at a time
 * and reads no further; Node's handles all that it has read.
 */
export class BoundedServer extends Server<typeof IncomingMessage, typeof Response> {
  #isClosing = false
  #closesUnused = false
  readonly #waiting: WaitingCount = { count: 0 }
  readonly #connections = new Map<Socket, Connection>()

  constructor(options: Options) {
    super({ ...options, ServerResponse: Response })
    this.on("connection", (socket: Socket) => {
      this.#connections.set(socket, new Connection(socket, this.#waiting))
      socket.once("close", () => this.#connections.delete(socket))
    })
  }

  /** A request, also one that asks whether it may send its body, is handled in the order of its connection. */
  override emit(event: string, ...args: Array<unknown>): boolean {
    const [request, response] = args
    if (event !== "request" && event !== "checkContinue") return super.emit(event, ...args)
    if (!(request instanceof IncomingMessage && response instanceof Response)) return super.emit(event, ...args)
    if (this.#isClosing) {
      response.setHeader("connection", "close")
      response.once("close", () => this.closeIdleConnections())
    }
    this.#connections.get(request.socket)?.handle(response, () => void super.emit(event, ...args))
    return true
  }

  override close(callback?: (error?: Error) => void): this {
    this.#isClosing = true
    for (const connection of this.#connections.values()) connection.announceClose()
    // @effect-diagnostics-next-line globalTimers:off -- Node's server is no fiber
    setTimeout(() => {
      this.#closesUnused = true
      for (const [socket, connection] of this.#connections) if (connection.isUnused) socket.destroySoon()
      this.closeIdleConnections()
    }, unusedMillis).unref()
    return super.close(callback)
  }

  /** Node calls it as soon as it closes, when a request may still be in transit. */
  override closeIdleConnections(): void {
    if (this.#closesUnused) super.closeIdleConnections()
  }
}
