import { Context, Effect, Layer, Redacted } from "effect"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"
import { serverUrl } from "./TestDatabase.ts"

/** Stands between a process and PostgreSQL, for tests in which the database goes away. */
export class DatabaseProxy extends Context.Service<DatabaseProxy, {
  /** The same database, reached through the proxy. */
  readonly through: (url: Redacted.Redacted) => Redacted.Redacted
  /** Nobody is connected any more, nor can be. */
  readonly cut: Effect.Effect<void>
  /** Swallows everything, as a network that lost its way does. */
  readonly freeze: Effect.Effect<void>
  readonly mend: Effect.Effect<void>
}>()("@card-rewards/dev-postgres/DatabaseProxy") {
  static readonly make = Effect.gen(function*() {
    const target = new URL(Redacted.value(serverUrl()))
    const sockets = new Set<Socket>()
    const state = { cut: false, frozen: false }
    const closeAll = () => {
      for (const socket of sockets) socket.destroy()
    }
    const server = createServer((incoming) => {
      if (state.cut) return incoming.destroy()
      if (state.frozen) return sockets.add(incoming.on("error", () => {}))
      const outgoing = connect(Number(target.port || 5432), target.hostname)
      for (const [from, to] of [[incoming, outgoing], [outgoing, incoming]] as const) {
        sockets.add(from)
        from.on("error", () => {}).on("close", () => {
          sockets.delete(from)
          to.destroy()
        })
        from.pipe(to)
      }
    })
    yield* Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening"))
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        server.close()
        closeAll()
      })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    return DatabaseProxy.of({
      through: (url) => {
        const changed = new URL(Redacted.value(url))
        changed.hostname = "127.0.0.1"
        changed.port = `${port}`
        return Redacted.make(changed.href)
      },
      cut: Effect.sync(() => {
        state.cut = true
        closeAll()
      }),
      freeze: Effect.sync(() => {
        state.frozen = true
        for (const socket of sockets) socket.unpipe().pause()
      }),
      mend: Effect.sync(() => {
        if (state.frozen) closeAll()
        state.cut = false
        state.frozen = false
      })
    })
  })

  static readonly layer = Layer.effect(DatabaseProxy, DatabaseProxy.make)
}
