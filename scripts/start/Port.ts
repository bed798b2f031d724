import { StartRefused } from "@card-rewards/core/Settings"
import { Effect, type Scope } from "effect"
import * as net from "node:net"

/** A port on which nothing else listens until `release`, or the end of the scope. */
interface Held {
  readonly port: number
  readonly release: Effect.Effect<void>
}

/**
 * Listens on a port, or on any free one for 0, and closes each connection: the api does not listen until PostgreSQL is
 * ready, and meanwhile another start would find the port free. Fails where anything listens there.
 */
export const holdPort = (host: string, wanted: number): Effect.Effect<Held, StartRefused, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(listen(host, wanted), close),
    (server) => {
      const address = server.address()
      const port = address === null || typeof address === "string" ? wanted : address.port
      return { port, release: close(server) }
    }
  )

/** Fails where anything listens on a port. */
export const requireFree = (host: string, port: number) => Effect.asVoid(Effect.scoped(holdPort(host, port)))

const listen = (host: string, port: number): Effect.Effect<net.Server, StartRefused> =>
  Effect.callback((resume) => {
    const server = net.createServer((connection) => connection.destroy())
    server.once("error", ({ message }) =>
      resume(Effect.fail(
        new StartRefused({
          message: `Cannot listen on ${host}:${port} (${message}): set PORT to another port, or to 0 for any free one`
        })
      )))
    server.listen(port, host, () => resume(Effect.succeed(server)))
  })

const close = (server: net.Server): Effect.Effect<void> =>
  Effect.callback((resume) => void server.close(() => resume(Effect.void)))
