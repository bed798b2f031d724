import { StartRefused } from "@card-rewards/core/Settings"
import { maxSimulationMillis, maxSimulationWaitMillis } from "@card-rewards/domain/Simulation"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer, Scope } from "effect"
import { HttpServer } from "effect/http"
import * as NetAddress from "effect/net/NetAddress"
import { BoundedServer } from "./Server/BoundedServer.ts"

/** How long a stop waits for requests in flight. */
const stopWithinSeconds = 10

/** How long a client may take to send a whole request. */
const requestTimeoutMillis = 30_000

/** How often that is checked. */
const requestCheckMillis = 5_000

/**
 * How long a connection may be silent, also one of a client that reads no answer. A simulation takes longest: it waits
 * for a slot, for those of others, and then has its own time.
 */
const silentMillis = maxSimulationWaitMillis + maxSimulationMillis + 20_000

/** Connections that are open, at most; one integrator has a quarter. */
const maxConnections = 10_000

/** Bytes of answers that clients have not read, at most, beyond what the kernel holds. */
const maxUnsentBytes = 128 * 1_048_576

interface Options {
  readonly host: string
  readonly port: number
  /** The integrator of a request's key, where that is known without a look-up. */
  readonly integratorOf?: (apiKey: string) => string | undefined
  /** The limits above, for tests. */
  readonly silentMillis?: number
  readonly maxConnections?: number
  readonly maxUnsentBytes?: number
}

/**
 * Node's server. At the end it stops accepting, closes unused connections after another half second, lets requests in
 * flight finish, for 10 s at most, and then closes the remaining connections. It never upgrades a connection: such a
 * request is answered as any other, and all timeouts hold (decisions, section 3). Fails with the reason where it cannot
 * listen.
 */
export const layer = (options: Options): Layer.Layer<HttpServer.HttpServer, StartRefused> =>
  Layer.effect(HttpServer.HttpServer, make(options))

const make = Effect.fnUntraced(function*({ host, integratorOf = () => undefined, port, ...options }: Options) {
  const server = new BoundedServer({
    requestTimeout: requestTimeoutMillis,
    connectionsCheckingInterval: requestCheckMillis,
    shouldUpgradeCallback: () => false,
    maxConnections: options.maxConnections ?? maxConnections,
    maxUnsentBytes: options.maxUnsentBytes ?? maxUnsentBytes,
    integratorOf: ({ headers }) => {
      const apiKey = headers["x-api-key"]
      return typeof apiKey === "string" ? integratorOf(apiKey) : undefined
    }
  })
  server.timeout = options.silentMillis ?? silentMillis
  const closed = yield* Effect.cached(Effect.callback<void>((resume) => {
    server.close(() => resume(Effect.void))
  }))
  const address = yield* Effect.acquireRelease(listen(server, { host, port }), () =>
    Effect.andThen(Effect.sync(() => server.closeAllConnections()), closed))

  return HttpServer.make({
    address,
    // @effect-diagnostics-next-line anyUnknownInErrorContext:off -- Effect's own type of an answer
    serve: Effect.fnUntraced(function*(answer, middleware) {
      // @effect-diagnostics-next-line anyUnknownInErrorContext:off
      const handler = yield* NodeHttpServer.makeHandler(answer, { scope: keepsNothing(), middleware })
      yield* Effect.addFinalizer(() => Effect.timeoutOption(closed, stopWithinSeconds * 1_000))
      server.on("request", handler).on("checkContinue", handler)
    })
  })
})

const listen = (server: BoundedServer, { host, port }: Options) =>
  Effect.tryPromise({
    try: () => server.listenAt({ host, port }),
    catch: (cause) => {
      const reason = cause instanceof Error ? cause.message : cause
      return new StartRefused({ message: `Cannot listen on ${host}:${port} (${reason})` })
    }
  }).pipe(
    Effect.flatMap((bound) => Effect.fromResult(NetAddress.inetAddressFromIpString(bound.address, bound.port))),
    Effect.catchTag("NetAddressError", Effect.die)
  )

/**
 * A scope that keeps no finalizers, for the fibers of requests: they end with their connections, all of which the
 * server closes. Effect keeps the fibers of a scope in a `Map`, and a map whose entries come and go with each request
 * keeps garbage alive, as a `Set` does: see {@link LinkedList}.
 */
const keepsNothing = (): Scope.Scope =>
  Object.defineProperty(Scope.makeUnsafe(), "state", { get: () => ({ _tag: "Empty" }), set: () => {} })
