import { attemptTimeoutMillis } from "@card-rewards/domain/Delivery"
import { refuse } from "@card-rewards/domain/EndpointUrl"
import { Clock, Context, Effect, Exit, FiberSet, Layer, Option } from "effect"
import { type Answer, AnswerCollector } from "./Connector/Answer.ts"
import { type Connect, Connections } from "./Connector/Connections.ts"
import { ConnectorError } from "./Connector/ConnectorError.ts"
import { type GuardOptions, guardedSocket } from "./Connector/GuardedSocket.ts"
import { dnsResolver, type Resolve, systemResolver } from "./Connector/Resolver.ts"

export type { Answer } from "./Connector/Answer.ts"
export { ConnectorError, type ConnectorReason } from "./Connector/ConnectorError.ts"
export { isPublicAddress } from "./Connector/PublicAddress.ts"
export { dnsResolver, type Resolve } from "./Connector/Resolver.ts"

export interface PostInput {
  readonly url: string
  /** Without `host`, `content-length` and `accept-encoding`, which the connector sets. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
}

export interface ConnectorOptions {
  /** For development and tests only: `http`, local names and private addresses may be called. */
  readonly allowPrivateNetwork: boolean
  /** DNS when absent; with `allowPrivateNetwork` the operating system's resolver. */
  readonly resolve?: Resolve
  /** Addresses treated as public: tests reach a local receiver with them while the address check is on. */
  readonly exemptAddresses?: ReadonlyArray<string>
  /** PEM certificates to trust instead of Node's. */
  readonly certificateAuthorities?: ReadonlyArray<string>
  /** Timeout of resolution, TCP and TLS together; 5 s when absent. */
  readonly connectTimeoutMillis?: number
  /** Timeout of the whole attempt, up to the last byte that is read; {@link attemptTimeoutMillis} when absent. */
  readonly totalTimeoutMillis?: number
  /** How long an idle connection is kept, whatever the receiver offers; 4 s when absent. */
  readonly keepAliveMillis?: number
  /** The age at which even a busy connection is replaced and its host resolved again; 60 s when absent. */
  readonly connectionAgeMillis?: number
  /** While this many connections are open, further ones are closed after one request; 1,024 when absent. */
  readonly maxKeptConnections?: number
}

/** Called once with the result of a request, unless the request is aborted before. */
export type OnDone = (outcome: Answer | ConnectorError) => void

/**
 * The only client of addresses that integrators choose (contract section 4, rule 6; decisions, section 7).
 *
 * `post` starts a request and returns a function that aborts it. The result is any status that arrives in time, also
 * 3xx, because redirects are not followed, or a {@link ConnectorError} without one. It connects only to addresses that
 * it has checked, over TLS verified against the host name. Every stage has a timeout; memory and connections are
 * limited. It reads at most 4 KiB of the body and about 256 KiB in all, decompresses nothing, and never retries. It
 * takes a callback because a fiber for each request would cost a seventh of the worker's CPU time.
 */
export class Connector extends Context.Service<Connector, {
  readonly post: (input: PostInput, onDone: OnDone) => () => void
}>()("@card-rewards/worker/Connector") {
  static readonly layer = (options: ConnectorOptions): Layer.Layer<Connector> =>
    Layer.effect(Connector, make(options))
}

const make = Effect.fnUntraced(function*(options: ConnectorOptions) {
  const { allowPrivateNetwork, totalTimeoutMillis = attemptTimeoutMillis, maxKeptConnections = 1024 } = options
  const clock = yield* Clock.Clock
  const nowMillis = () => clock.currentTimeMillisUnsafe()
  const sockets = yield* guardedSockets({
    resolve: options.resolve ?? (allowPrivateNetwork ? systemResolver : dnsResolver()),
    allowPrivateNetwork,
    exemptAddresses: options.exemptAddresses ?? [],
    certificateAuthorities: options.certificateAuthorities,
    connectTimeoutMillis: options.connectTimeoutMillis ?? 5000
  })
  const connections = yield* Effect.acquireRelease(
    Effect.sync(() =>
      new Connections({
        connect: sockets.connect,
        // no clock that can be set: the age bounds how long a changed DNS record has no effect
        nowMillis: () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n),
        keepAliveMillis: options.keepAliveMillis ?? 4000,
        maxAgeMillis: options.connectionAgeMillis ?? 60_000
      })
    ),
    (connections) => Effect.promise(() => connections.destroy())
  )

  const targetOf = targets(allowPrivateNetwork)
  const post = (input: PostInput, onDone: OnDone) => {
    const target = targetOf(input.url)
    if (target === undefined) {
      onDone(ConnectorError.because("url_refused"))
      return () => undefined
    }
    const connection = connections.take(target.origin)
    const collector = new AnswerCollector({
      onDone,
      onReleased: (isReusable) => connections.giveBack(connection, isReusable),
      nowMillis,
      timeoutMillis: totalTimeoutMillis
    })
    connection.client.dispatch({
      path: target.path,
      method: "POST",
      headers: { ...input.headers, "accept-encoding": "identity" },
      body: input.body,
      reset: sockets.open() >= maxKeptConnections
    }, collector)
    return () => collector.abort()
  }

  return Connector.of({ post })
})

/** Parsed URLs that a process caches. */
const maxTargets = 1_000

/** Parses URLs, with a cache; returns undefined for a URL that may not be called. */
const targets = (allowPrivateNetwork: boolean) => {
  const known = new Map<string, { readonly origin: string; readonly path: string }>()
  return (url: string) => {
    const before = known.get(url)
    if (before !== undefined) return before
    if (refuse(url, { allowPrivateNetwork }) !== undefined) return undefined
    const { origin, pathname, search } = new URL(url)
    if (known.size >= maxTargets) known.clear()
    const target = { origin, path: pathname + search }
    known.set(url, target)
    return target
  }
}

/** The connect function and the number of open sockets. Closing the scope ends connection attempts. */
const guardedSockets = Effect.fnUntraced(function*(options: GuardOptions) {
  const run = yield* FiberSet.makeRuntime()
  let open = 0
  const connect: Connect = (target, onDone) => {
    const fiber = run(guardedSocket(target, options))
    fiber.addObserver((exit) => {
      if (Exit.isFailure(exit)) return onDone(failureOf(exit))
      open++
      exit.value.socket.once("close", () => open--)
      onDone(exit.value)
    })
  }
  return { connect, open: () => open }
})

const failureOf = (exit: Exit.Exit<unknown, ConnectorError>): ConnectorError =>
  Option.getOrElse(Exit.findErrorOption(exit), () => ConnectorError.because("closed"))
