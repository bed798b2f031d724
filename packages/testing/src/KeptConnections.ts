import { Agent, type AgentOptions } from "node:http"
import type { Duplex } from "node:stream"

/** How long a connection may be idle; the service closes one after 6 s. */
const maxIdleMillis = 2_000

/**
 * Node's agent, which keeps connections, and uses none that was idle for long. Node's own closes these with a timer:
 * after a busy time the next request is sent before that, over a connection that the server has closed meanwhile.
 */
export class KeptConnections extends Agent {
  readonly #idleSince = new WeakMap<Duplex, number>()
  readonly #maxIdleMillis: number

  constructor(options: AgentOptions & { readonly maxIdleMillis?: number } = {}) {
    super({ ...options, keepAlive: true })
    this.#maxIdleMillis = options.maxIdleMillis ?? maxIdleMillis
  }

  override keepSocketAlive(socket: Duplex): void {
    this.#idleSince.set(socket, performance.now())
    return super.keepSocketAlive(socket)
  }

  /** Closes what was idle for too long: to be called before each request. */
  closeIdle(): void {
    const latest = performance.now() - this.#maxIdleMillis
    for (const sockets of Object.values(this.freeSockets)) {
      for (const socket of sockets ?? []) if ((this.#idleSince.get(socket) ?? latest) <= latest) socket.destroy()
    }
  }
}
