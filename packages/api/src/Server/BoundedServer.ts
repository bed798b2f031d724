import { LinkedList } from "@card-rewards/core/Batcher/LinkedList"
import { InvalidRequest } from "@card-rewards/domain/Errors"
import { Schema } from "effect"
import type { ServerOptions } from "node:http"
import type { AddressInfo, ListenOptions, Server as NetServer, Socket } from "node:net"
import { OwnerShares } from "../Pipeline/OwnerShares.ts"
import { Connection, maxWaitingBehindOthers, type Shared } from "./Connection.ts"
import * as Listeners from "./Listeners.ts"
import { type IncomingMessage, Server } from "./NodeHttp.ts"
import { Request } from "./Request.ts"
import { RequestTurns } from "./RequestTurns.ts"
import { Response } from "./Response.ts"

/**
 * How long a stop leaves unused connections open: a request may be in transit, and is answered with
 * `connection: close`.
 */
const unusedMillis = 500

/** How often the bytes of answers are counted that clients have not read. */
const countMillis = 1_000

interface Options extends
  Pick<
    ServerOptions<typeof Request, typeof Response>,
    "requestTimeout" | "connectionsCheckingInterval" | "shouldUpgradeCallback"
  >
{
  /** The integrator of a request's key, where that is known without a look-up. */
  readonly integratorOf: (request: IncomingMessage) => string | undefined
  readonly maxConnections: number
  readonly maxUnsentBytes: number
}

/**
 * Node's server, with bounds that no client or integrator can use up for the others:
 *
 * - Of the requests that a client pipelines on one connection it handles 16 at a time and reads no further; Node's
 *   handles all that it has read.
 * - Requests start a few in each turn of the event loop, integrators (and clients without a key) in turn.
 * - One integrator has a quarter of the connections; one more is closed after its first answer.
 * - At the limit of connections the oldest one that never showed a key makes room for a new one.
 * - While clients read too little of their answers, connections are closed: those without a key first, and the ones
 *   with the most unread bytes first.
 *
 * After `close`, Node's server keeps serving its kept-alive connections and waits for those that never sent anything.
 * This one then says `connection: close` in every answer, so that clients go elsewhere, and closes what is unused.
 */
export class BoundedServer extends Server<typeof Request, typeof Response> {
  #isClosing = false
  /** The servers of the further listening sockets. */
  #others: ReadonlyArray<NetServer> = []
  #closesUnused = false
  readonly #counting: NodeJS.Timeout
  readonly #integratorOf: Options["integratorOf"]
  readonly #shared: Shared = { turns: new RequestTurns(), waiting: new OwnerShares(maxWaitingBehindOthers) }
  readonly #bySocket = new WeakMap<Socket, Connection>()
  #count = 0
  /** Connections with the key of an integrator. */
  readonly #withKey = new LinkedList<Connection>()
  /** Connections without a known key, the oldest first. */
  readonly #withoutKey = new LinkedList<Connection>()
  readonly #shareOfIntegrator: OwnerShares
  readonly #maxConnections: number
  readonly #maxUnsentBytes: number

  constructor({ integratorOf, maxConnections, maxUnsentBytes, ...options }: Options) {
    // what Node refuses by itself does not wait for its turn
    super({ ...options, requireHostHeader: false, IncomingMessage: Request, ServerResponse: Response })
    this.on("checkExpectation", (_, response) => response.writeHead(417).end())
    this.#integratorOf = integratorOf
    this.#shareOfIntegrator = new OwnerShares(maxConnections)
    this.#maxConnections = maxConnections
    this.#maxUnsentBytes = maxUnsentBytes
    // after Node's own listener: where both hear that a socket resumes, the pause comes last
    this.on("connection", (socket: Socket) => this.#add(socket))
    // @effect-diagnostics-next-line globalTimers:off -- Node's server is no fiber
    this.#counting = setInterval(() => this.#closeSlowReaders(), countMillis).unref()
  }

  /** A request, also one with an expectation such as `100-continue`, is handled in the order of its connection. */
  override emit(event: string, ...args: Array<unknown>): boolean {
    const [request, response] = args
    if (!(request instanceof Request && response instanceof Response)) return super.emit(event, ...args)
    if (this.#isClosing) {
      response.setHeader("connection", "close")
      response.once("close", () => this.closeIdleConnections())
    }
    const connection = this.#bySocket.get(request.socket)
    if (connection === undefined) return true
    this.#recognise(connection, request, response)
    const owner = () => this.#integratorOf(request) ?? connection.client
    const hosts = countHosts(request)
    if (hosts > 1 || hosts === 0 && request.httpVersion === "1.1") {
      connection.handleLast({ response, owner, handle: () => refuse(response, hosts === 0 ? noHost : severalHosts) })
    } else connection.handle({ response, owner, handle: () => void super.emit(event, ...args) })
    return true
  }

  /** Listens, on several sockets where that is possible. */
  async listenAt(at: ListenOptions): Promise<AddressInfo> {
    const { address, others } = await Listeners.listen(this, at)
    this.#others = others
    return address
  }

  override close(callback?: (error?: Error) => void): this {
    this.#isClosing = true
    clearInterval(this.#counting)
    let left = this.#others.length + 1
    const closed = (error?: Error) => {
      if (--left === 0) callback?.(error)
    }
    for (const other of this.#others) other.close(closed)
    for (const connection of this.#open()) connection.announceClose()
    // @effect-diagnostics-next-line globalTimers:off -- Node's server is no fiber
    setTimeout(() => {
      this.#closesUnused = true
      for (const connection of this.#open()) connection.closeIfUnused()
      this.closeIdleConnections()
    }, unusedMillis).unref()
    return super.close(closed)
  }

  /** Node calls it as soon as it closes, when a request may still be in transit. */
  override closeIdleConnections(): void {
    if (this.#closesUnused) super.closeIdleConnections()
  }

  #add(socket: Socket): void {
    if (this.#count >= this.#maxConnections) {
      const oldest = this.#withoutKey.first
      if (oldest === undefined) return void socket.destroy()
      // its end comes in a later phase of the event loop, and another newcomer needs another one
      this.#withoutKey.delete(oldest)
      oldest.close()
    }
    const connection = new Connection(socket, this.#shared)
    this.#bySocket.set(socket, connection)
    this.#count++
    this.#withoutKey.add(connection)
    socket.once("close", () => {
      this.#count--
      if (connection.integratorId === undefined) return void this.#withoutKey.delete(connection)
      this.#withKey.delete(connection)
      this.#shareOfIntegrator.giveBack(connection.integratorId)
    })
  }

  /** Counts a connection for its integrator as soon as that is known; beyond its share it ends with its next answer. */
  #recognise(connection: Connection, request: IncomingMessage, response: Response): void {
    if (connection.integratorId !== undefined) return
    const integratorId = this.#integratorOf(request)
    if (integratorId === undefined) return
    if (!this.#shareOfIntegrator.take(integratorId)) return void response.setHeader("connection", "close")
    connection.integratorId = integratorId
    this.#withoutKey.delete(connection)
    this.#withKey.add(connection)
  }

  *#open(): Generator<Connection> {
    yield* this.#withoutKey
    yield* this.#withKey
  }

  #closeSlowReaders(): void {
    let total = 0
    for (const connection of this.#open()) total += connection.unsentBytes
    if (total <= this.#maxUnsentBytes) return
    for (const connections of [this.#withoutKey, this.#withKey]) {
      const readers = [...connections].map((connection) => ({ connection, bytes: connection.unsentBytes }))
      for (const { bytes, connection } of readers.sort((one, other) => other.bytes - one.bytes)) {
        if (total <= this.#maxUnsentBytes / 2) return
        if (bytes === 0) break
        connection.close()
        total -= bytes
      }
    }
  }
}

/** The number of `Host` headers. Node's own list by name would cost each request a list for each header. */
const countHosts = ({ rawHeaders }: Request): number => {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === "host") count++
  }
  return count
}

/** Answers 400, as Node does, with the error of the contract. */
const refuse = (response: Response, error: typeof InvalidRequest.Encoded): void => {
  response.statusCode = 400
  response.setHeader("content-type", "application/json").end(JSON.stringify(error))
}

const invalidHeaders = (message: string) =>
  Schema.encodeSync(InvalidRequest)(new InvalidRequest({ part: "headers", message }))

const noHost = invalidHeaders("host: is missing")
const severalHosts = invalidHeaders("host: is there several times")
