import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { Context, Effect, Layer, Redacted, type Scope } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { Transform } from "node:stream"
import * as LoopbackServer from "./LoopbackServer.ts"

/** Where a server listens. */
export interface Target {
  readonly host: string
  readonly port: number
}

/** A TCP proxy on this machine whose connections a test can break. */
export class NetworkProxy extends Context.Service<NetworkProxy, {
  readonly port: number
  /** The same address through the proxy. */
  readonly through: (url: Redacted.Redacted) => Redacted.Redacted
  /** Ends all connections and refuses new ones. */
  readonly cut: Effect.Effect<void>
  /** Drops all data from now on without ending a connection, so that all are half-open, including new ones. */
  readonly freeze: Effect.Effect<void>
  /** Answers of the servers take so much longer from now on; 0 ends that. */
  readonly delay: (millis: number) => Effect.Effect<void>
  /** New connections work again. A frozen one stays half-open for ever, as after a host was replaced. */
  readonly restore: Effect.Effect<void>
}>()("@card-rewards/testing/NetworkProxy") {
  /** Distributes new connections to these servers round robin, and skips a server that refuses. */
  static readonly make = (
    ...targets: ReadonlyArray<Target>
  ): Effect.Effect<NetworkProxy["Service"], never, Scope.Scope> =>
    Effect.gen(function*() {
      const sockets = new Set<Socket>()
      let state: "open" | "cut" | "frozen" = "open"
      let accepted = 0
      let delayMillis = 0
      const delayed = () =>
        new Transform({
          transform: (chunk, _, done) => {
            if (delayMillis === 0) done(null, chunk)
            else setTimeout(done, delayMillis, null, chunk)
          }
        })
      const keep = (socket: Socket) => {
        sockets.add(socket.setNoDelay(true))
        return socket.on("error", () => undefined).once("close", () => sockets.delete(socket))
      }
      const destroyAll = () => {
        for (const socket of sockets) socket.destroy()
      }
      const server = createServer((incoming) => {
        keep(incoming)
        if (state === "cut") return incoming.destroy()
        if (state === "frozen") return incoming.pause()
        const first = accepted++
        const attempt = (tried: number): void => {
          const target = targets[(first + tried) % targets.length]
          if (target === undefined || tried === targets.length) return void incoming.destroy()
          const outgoing = keep(connect(target))
          const passOver = () => attempt(tried + 1)
          outgoing.once("error", passOver).once("connect", () => {
            outgoing.off("error", passOver)
            if (state === "frozen") return
            incoming.once("close", () => outgoing.destroy()).pipe(outgoing)
            outgoing.once("close", () => incoming.destroy()).pipe(delayed()).pipe(incoming)
          })
        }
        attempt(0)
      })
      const { port } = yield* LoopbackServer.listen(server)
      yield* Effect.addFinalizer(() => Effect.sync(destroyAll))
      return NetworkProxy.of({
        port,
        through: (url) => atPort(url, port),
        cut: Effect.sync(() => {
          state = "cut"
          destroyAll()
        }),
        freeze: Effect.sync(() => {
          state = "frozen"
          for (const socket of sockets) socket.unpipe().pause()
        }),
        delay: (millis) => Effect.sync(() => void (delayMillis = millis)),
        restore: Effect.sync(() => {
          state = "open"
        })
      })
    })

  /** A proxy to the test run's PostgreSQL. */
  static readonly toDatabase = Effect.suspend(() => {
    const { hostname, port } = new URL(Redacted.value(TestDatabase.serverUrl()))
    return NetworkProxy.make({ host: hostname, port: Number(port || 5432) })
  })

  /** {@link toDatabase} as a layer. */
  static readonly layer = Layer.effect(NetworkProxy, NetworkProxy.toDatabase)
}

/** The same URL at a port of 127.0.0.1. */
export const atPort = (url: Redacted.Redacted, port: number): Redacted.Redacted => {
  const changed = new URL(Redacted.value(url))
  changed.hostname = "127.0.0.1"
  changed.port = `${port}`
  return Redacted.make(changed.href)
}
