import type { LinkedEntry } from "@card-rewards/core/Batcher/LinkedList"
import type { Socket } from "node:net"
import { clientOf } from "../Pipeline/ClientAddress.ts"
import type { OwnerShares } from "../Pipeline/OwnerShares.ts"
import { skipFurtherRequests } from "./Parser.ts"
import type { RequestTurns } from "./RequestTurns.ts"
import type { Response } from "./Response.ts"

/** Requests of one connection that are handled at the same time, at most. */
export const maxHandled = 16

/**
 * Requests of all connections that wait for earlier ones of their connection, at most; one client has a quarter. One
 * read of a socket, 64 KiB, may hold more than a thousand.
 */
export const maxWaitingBehindOthers = 20_000

/** A request that has not started. */
interface PendingRequest {
  readonly response: Response
  /** Whose turn it is to wait for. */
  readonly owner: () => string
  readonly handle: () => void
}

/** What the connections of a server share. */
export interface Shared {
  readonly turns: RequestTurns
  /** Requests that wait for earlier ones of their connection, by its client. */
  readonly waiting: OwnerShares
}

/**
 * The requests of one connection. Those that a client pipelines beyond {@link maxHandled}, or without reading its
 * answers, wait in order, and the socket is not read while any of them waits.
 */
export class Connection implements LinkedEntry<Connection> {
  previous: Connection | undefined
  next: Connection | undefined
  isListed = false
  /** What its client is counted under, see {@link clientOf}. */
  readonly client: string
  /** The integrator whose key one of its requests had. */
  integratorId: string | undefined
  private readonly socket: Socket
  private readonly shared: Shared
  /** The responses of the requests that are handled. */
  private readonly handled: Array<Response> = []
  private waiting: Array<PendingRequest> = []
  private isStarting = false
  private isScheduled = false
  private hasRequest = false

  constructor(socket: Socket, shared: Shared) {
    this.client = clientOf(socket.remoteAddress ?? "")
    this.socket = socket
    this.shared = shared
    // Node resumes the socket for the body of each request that is handled
    socket.on("resume", () => {
      if (this.waiting.length > 0) socket.pause()
    })
    socket.on("drain", () => this.schedule())
    socket.once("close", () => {
      if (this.waiting.length > 0) this.shared.waiting.giveBack(this.client, this.waiting.length)
      this.waiting = []
      // Node ends them, except after CONNECT
      for (const response of this.handled) response.destroy()
    })
  }

  /** Closes the connection if it never carried a byte. */
  closeIfUnused(): void {
    if (!this.hasRequest && this.socket.bytesRead === 0) this.socket.destroySoon()
  }

  /** Bytes of answers that the client has not read, beyond what the kernel holds. */
  get unsentBytes(): number {
    let bytes = this.socket.writableLength
    // Node gives the socket to one response after the other
    for (const response of this.handled) if (response.socket === null) bytes += response.writableLength
    return bytes
  }

  /** Handles a request in its turn. Where too many wait, this connection is closed. */
  handle(request: PendingRequest): void {
    this.hasRequest = true
    if (this.waiting.length === 0 && this.mayStart) return this.start(request)
    if (!this.shared.waiting.take(this.client)) return this.close()
    this.waiting.push(request)
    this.socket.pause()
  }

  /** Handles a request in its turn, as the last one of its connection. */
  handleLast(request: PendingRequest): void {
    skipFurtherRequests(this.socket)
    request.response.setHeader("connection", "close")
    this.handle(request)
  }

  /** Sets `connection: close` on all answers that have not started. */
  announceClose(): void {
    for (const response of [...this.handled, ...this.waiting.map(({ response }) => response)]) {
      if (!response.headersSent) response.setHeader("connection", "close")
    }
  }

  close(): void {
    this.socket.destroy()
    skipFurtherRequests(this.socket)
  }

  private get mayStart(): boolean {
    return !this.isStarting && this.handled.length < maxHandled && !this.socket.writableNeedDrain
  }

  /** One request at a time waits for its owner's turn, so that the next one knows whether the answers are read. */
  private start({ handle, owner, response }: PendingRequest): void {
    this.isStarting = true
    const start = () => {
      this.isStarting = false
      this.handled.push(response)
      response.onSent = () => {
        this.handled.splice(this.handled.indexOf(response), 1)
        this.schedule()
      }
      handle()
      this.startNext()
    }
    if (!this.shared.turns.run({ owner, isClosed: () => this.socket.destroyed, start })) this.close()
  }

  private startNext(): void {
    if (!this.mayStart) return
    const next = this.waiting.shift()
    if (next === undefined) return
    this.shared.waiting.giveBack(this.client)
    if (this.waiting.length === 0) this.socket.resume()
    this.start(next)
  }

  /** The next one starts in another turn of the event loop, so that other connections have theirs in between. */
  private schedule(): void {
    if (this.isScheduled || this.waiting.length === 0) return
    this.isScheduled = true
    setImmediate(() => {
      this.isScheduled = false
      this.startNext()
    })
  }
}
