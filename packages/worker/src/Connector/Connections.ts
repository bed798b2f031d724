import { Client } from "undici"
import { acceptContinue } from "./AcceptContinue.ts"
import { ConnectorError } from "./ConnectorError.ts"
import type { OpenSocket, Target } from "./GuardedSocket.ts"

/** Opens a connection. The callback is called once. */
export type Connect = (target: Target, onDone: (outcome: OpenSocket | Error) => void) => void

/**
 * How many bytes of TCP may arrive after a request was sent. An honest receiver sends less: the headers of a response
 * may have 16 KiB, and 4 KiB of its body are read. But undici counts neither the extensions of chunks nor empty lines,
 * and Node shows it no TLS records without content.
 */
const maxReceivedBytes = 256 * 1024

/** How often the bytes that have arrived are compared with {@link maxReceivedBytes}. */
const receivedCheckMillis = 100

export interface ConnectionsOptions {
  readonly connect: Connect
  readonly nowMillis: () => number
  /** How long an idle connection is kept, whatever the receiver offers. */
  readonly keepAliveMillis: number
  /** The age at which even a busy connection is replaced. */
  readonly maxAgeMillis: number
}

/** An HTTP/1.1 client of one connection, which it makes for its first request, and again where it was closed. */
export interface Connection {
  readonly client: Client
  readonly receiver: Receiver
  /** When it was made; undefined before that, and after it was closed. */
  madeAt: number | undefined
  /** Its socket while it is open. */
  opened: OpenSocket | undefined
  /** The bytes that had arrived when its last request began. */
  receivedBefore: number
}

/** The connections to one origin. It is forgotten with the last of them. */
interface Receiver {
  readonly origin: string
  readonly all: Set<Connection>
  /** Those without a request, the last used at the end. */
  readonly idle: Array<Connection>
}

/**
 * Connections with one request at a time. Each request gets the idle connection of its origin that was used last, or a
 * new one: undici's own pool would look at all connections of the origin for each request. A connection that receives
 * more than 256 KiB after a request was sent is closed, whether the request is still in flight or has its answer.
 */
export class Connections {
  private readonly options: ConnectionsOptions
  private readonly receivers = new Map<string, Receiver>()
  private isDestroyed = false
  private receivedCheck: NodeJS.Timeout | undefined

  constructor(options: ConnectionsOptions) {
    this.options = options
  }

  /** How many origins have connections; only tests read it. */
  get origins(): number {
    return this.receivers.size
  }

  /** A connection for one request, after which it is to be given back. */
  take(origin: string): Connection {
    const receiver = this.receivers.get(origin) ?? { origin, all: new Set<Connection>(), idle: [] }
    const oldestMadeAt = this.options.nowMillis() - this.options.maxAgeMillis
    for (let idle = receiver.idle.pop(); idle !== undefined; idle = receiver.idle.pop()) {
      if (idle.madeAt !== undefined && idle.madeAt >= oldestMadeAt) {
        idle.receivedBefore = idle.opened?.tcp.bytesRead ?? 0
        return idle
      }
      this.close(idle)
    }
    return this.add(receiver)
  }

  /** The request has ended; with `isReusable` the connection can have another one. */
  giveBack(connection: Connection, isReusable: boolean): void {
    const canBeKept = isReusable && connection.madeAt !== undefined && !isFlooded(connection)
    if (canBeKept) connection.receiver.idle.push(connection)
    else this.close(connection)
  }

  /** Closes all connections. Their requests fail, and all that follow. */
  async destroy(): Promise<void> {
    this.isDestroyed = true
    const all = [...this.receivers.values()].flatMap((receiver) => [...receiver.all])
    await Promise.all(all.map(({ client }) => client.destroy()))
  }

  private add(receiver: Receiver): Connection {
    const { connect, keepAliveMillis, nowMillis } = this.options
    const client = new Client(receiver.origin, {
      connect: (target, callback) =>
        connect(target, (outcome) => {
          if (outcome instanceof Error) return callback(outcome, null)
          connection.opened = outcome
          connection.receivedBefore = outcome.tcp.bytesRead
          callback(null, outcome.socket)
        }),
      allowH2: false,
      pipelining: 1,
      keepAliveTimeout: keepAliveMillis,
      keepAliveMaxTimeout: keepAliveMillis,
      // a timeout of the caller's bounds the whole request
      headersTimeout: 0,
      bodyTimeout: 0
    })
    const connection: Connection = { client, receiver, madeAt: undefined, opened: undefined, receivedBefore: 0 }
    client.on("connect", () => {
      connection.madeAt = nowMillis()
      if (connection.opened !== undefined) acceptContinue(connection.opened.socket)
    })
    client.on("disconnect", () => {
      connection.madeAt = undefined
      connection.opened = undefined
      const index = receiver.idle.indexOf(connection)
      if (index < 0) return
      receiver.idle.splice(index, 1)
      this.close(connection)
    })
    if (this.isDestroyed) client.destroy(() => undefined)
    receiver.all.add(connection)
    this.receivers.set(receiver.origin, receiver)
    // @effect-diagnostics-next-line globalTimers:off -- one for all connections, no fiber like the requests
    this.receivedCheck ??= setInterval(() => this.closeFlooded(), receivedCheckMillis).unref()
    return connection
  }

  /** Closes connections that have received too much by now; a request in flight fails, even if it has a status. */
  private closeFlooded(): void {
    for (const { all } of this.receivers.values()) {
      for (const connection of all) {
        if (isFlooded(connection)) connection.opened?.socket.destroy(ConnectorError.because("protocol"))
      }
    }
    if (this.receivers.size > 0) return
    clearInterval(this.receivedCheck)
    this.receivedCheck = undefined
  }

  private close(connection: Connection): void {
    const { client, receiver } = connection
    receiver.all.delete(connection)
    if (receiver.all.size === 0) this.receivers.delete(receiver.origin)
    client.close(() => undefined)
  }
}

const isFlooded = ({ opened, receivedBefore }: Connection): boolean =>
  opened !== undefined && opened.tcp.bytesRead - receivedBefore > maxReceivedBytes
