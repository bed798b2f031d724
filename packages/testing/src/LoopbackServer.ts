import { Effect, Latch, type Scope } from "effect"
import { once } from "node:events"
import type { Server, Socket } from "node:net"

/** A server that listens on this machine alone. */
export interface Listening {
  readonly port: number
  /** Connections accepted so far. */
  readonly connections: () => number
  /** Connections that are open now. */
  readonly open: () => number
  /** Waits until no connection is open. */
  readonly drained: Effect.Effect<void>
  /** Ends every connection and refuses new ones; the end of the scope does the same. */
  readonly close: Effect.Effect<void>
}

/** Lets a TCP, TLS or HTTP server listen until the scope closes; on 127.0.0.1 and a free port when left out. */
export const listen = (
  server: Server,
  { host = "127.0.0.1", port = 0 }: { readonly host?: string; readonly port?: number } = {}
): Effect.Effect<Listening, never, Scope.Scope> =>
  Effect.gen(function*() {
    const sockets = new Set<Socket>()
    const none = Latch.makeUnsafe(true)
    let connections = 0
    server.on("connection", (socket) => {
      connections++
      sockets.add(socket)
      none.closeUnsafe()
      socket.on("error", () => {}).once("close", () => {
        sockets.delete(socket)
        if (sockets.size === 0) none.openUnsafe()
      })
    })
    const close = Effect.callback<void>((resume) => {
      server.close(() => resume(Effect.void))
      for (const socket of sockets) socket.destroy()
    })
    yield* Effect.acquireRelease(Effect.promise(() => once(server.listen(port, host), "listening")), () => close)
    const address = server.address()
    return {
      port: typeof address === "object" && address !== null ? address.port : 0,
      connections: () => connections,
      open: () => sockets.size,
      drained: none.await,
      close
    }
  })
