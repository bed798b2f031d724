import { serverUrl } from "@card-rewards/dev-postgres/TestDatabase"
import { Effect, Redacted } from "effect"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"

/** Stands between the worker and PostgreSQL; while it is cut nobody is connected, nor can be. */
export const make = Effect.gen(function*() {
  const target = new URL(Redacted.value(serverUrl()))
  const sockets = new Set<Socket>()
  let isCut = false
  const server = createServer((incoming) => {
    if (isCut) return incoming.destroy()
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
  const cut = () => {
    isCut = true
    for (const socket of sockets) socket.destroy()
  }
  yield* Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening"))
  yield* Effect.addFinalizer(() => Effect.sync(() => {
    server.close()
    cut()
  }))
  const address = server.address()
  return {
    cut,
    mend: () => {
      isCut = false
    },
    /** The same database, reached through the proxy. */
    through: (url: Redacted.Redacted) => {
      const changed = new URL(Redacted.value(url))
      changed.hostname = "127.0.0.1"
      changed.port = `${typeof address === "object" ? address?.port : 0}`
      return Redacted.make(changed.href)
    }
  }
})
