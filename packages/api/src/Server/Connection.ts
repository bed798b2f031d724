import type { Socket } from "node:net"
import type { Response } from "./Response.ts"

/** Requests of one connection that are handled at the same time, at most. */
export const maxHandled = 16

/**
 * Requests of all connections that wait for earlier ones of their connection, at most. One read of a socket, 64 KiB,
 * may hold more than a thousand.
 */
export const maxWaiting = 20_000

interface Waiting {
  readonly response: Response
  readonly handle: () => void
}

/** Requests that wait, of all connections of a server. */
export interface WaitingCount {
  count: number
}

/**
 * The requests of one connection. Those that a client pipelines beyond {@link maxHandled} wait in order, and the socket
 * is not read while any of them waits.
 */
export class Connection {
  private readonly socket: Socket
  private readonly waitingOfAll: WaitingCount
  private readonly unanswered = new Set<Response>()
  private handled = 0
  private waiting: Array<Waiting> = []
  private isScheduled = false
  private hasRequest = false

  constructor(socket: Socket, waitingOfAll: WaitingCount) {
    this.socket = socket
    this.waitingOfAll = waitingOfAll
    // Node resumes the socket for the body of each request that is handled
    socket.on("resume", () => {
      if (this.waiting.length > 0) socket.pause()
    })
    socket.once("close", () => {
      this.waitingOfAll.count -= this.waiting.length
      this.waiting = []
      this.unanswered.clear()
    })
  }

  /** Whether the connection never carried a byte. */
  get isUnused(): boolean {
    return !this.hasRequest && this.socket.bytesRead === 0
  }

  /** Handles a request at once or in its turn. Where too many wait on all connections, this one is closed. */
  handle(response: Response, handle: () => void): void {
    this.hasRequest = true
    this.unanswered.add(response)
    if (this.handled < maxHandled && this.waiting.length === 0) return this.start({ response, handle })
    if (this.waitingOfAll.count >= maxWaiting) return void this.socket.destroy()
    this.waiting.push({ response, handle })
    this.waitingOfAll.count++
    this.socket.pause()
  }

  /** Sets `connection: close` on all answers that have not started. */
  announceClose(): void {
    for (const response of this.unanswered) if (!response.headersSent) response.setHeader("connection", "close")
  }

  private start({ handle, response }: Waiting): void {
    this.handled++
    response.once("close", () => {
      this.handled--
      this.unanswered.delete(response)
      if (this.waiting.length > 0) this.schedule()
    })
    handle()
  }

  /** The next ones start in another turn of the event loop, so that other connections have theirs in between. */
  private schedule(): void {
    if (this.isScheduled) return
    this.isScheduled = true
    setImmediate(() => {
      this.isScheduled = false
      const next = this.waiting.splice(0, maxHandled - this.handled)
      this.waitingOfAll.count -= next.length
      for (const one of next) this.start(one)
      if (this.waiting.length === 0) this.socket.resume()
    })
  }
}
