import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"

/** A way to TCP servers that can be made to fail. */
export interface TcpProxy {
  readonly port: number
  /** The same address, by way of the proxy. */
  readonly through: (url: string) => string
  /** Where new connections go, in turn; none refuses them. */
  targets: ReadonlyArray<number>
  /** Ends all connections and refuses new ones. */
  readonly cut: () => void
  /** Swallows everything from now on, as a network that lost its way does; nobody is told. */
  readonly swallow: () => void
  /** New connections work again. What was swallowed stays silent for ever, as after a host was replaced. */
  readonly mend: () => void
}

/** Balances new connections over its targets, one after another; a target that refuses is passed over. */
export const make = (...targets: ReadonlyArray<number>): Effect.Effect<TcpProxy, never, Scope.Scope> =>
  Effect.gen(function*() {
    const sockets = new Set<Socket>()
    let isCut = false
    let isSwallowing = false
    let turn = 0
    const keep = (socket: Socket) => {
      sockets.add(socket.setNoDelay(true))
      return socket.on("error", () => undefined).once("close", () => sockets.delete(socket))
    }
    const server = createServer((incoming) => {
      keep(incoming)
      if (isCut) return incoming.destroy()
      if (isSwallowing) return incoming.pause()
      const begin = turn++
      const attempt = (tried: number): void => {
        const port = proxy.targets[(begin + tried) % proxy.targets.length]
        if (port === undefined || tried === proxy.targets.length) return void incoming.destroy()
        const outgoing = keep(connect(port, "127.0.0.1"))
        const passOver = () => attempt(tried + 1)
        outgoing.once("error", passOver).once("connect", () => {
          outgoing.off("error", passOver)
          for (const [from, to] of [[incoming, outgoing], [outgoing, incoming]] as const) {
            from.once("close", () => to.destroy())
            from.pipe(to)
          }
        })
      }
      attempt(0)
    })
    yield* Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening"))
    const destroyAll = () => {
      for (const socket of sockets) socket.destroy()
    }
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        server.close()
        destroyAll()
      })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    const proxy: TcpProxy = {
      port,
      through: (url) => {
        const changed = new URL(url)
        changed.port = `${port}`
        return changed.href
      },
      targets,
      cut: () => {
        isCut = true
        destroyAll()
      },
      swallow: () => {
        isSwallowing = true
        for (const socket of sockets) socket.unpipe().pause()
      },
      mend: () => {
        isCut = false
        isSwallowing = false
      }
    }
    return proxy
  })
