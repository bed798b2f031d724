import { refuse } from "@card-rewards/domain/EndpointUrl"
import { Clock, Context, Effect, Exit, FiberSet, Layer } from "effect"
import { Agent, type buildConnector } from "undici"
import { type Answer, AnswerCollector } from "./Connector/Answer.ts"
import { ConnectorError } from "./Connector/ConnectorError.ts"
import { type GuardOptions, guardedSocket } from "./Connector/GuardedSocket.ts"
import { dnsResolver, type Resolve, systemResolver } from "./Connector/Resolver.ts"

export { type Answer, maxBodyBytes } from "./Connector/Answer.ts"
export { ConnectorError, type ConnectorReason } from "./Connector/ConnectorError.ts"
export { isPublicAddress } from "./Connector/PublicAddress.ts"
export { dnsResolver, type Resolve, type ResolvedAddress } from "./Connector/Resolver.ts"

export interface PostInput {
  readonly url: string
  /** Without `host`, `content-length`, `accept-encoding`, which are the connector's. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface ConnectorOptions {
  /** For development and tests only: `http`, local names and private addresses may be called. */
  readonly allowPrivateNetwork: boolean
  /** DNS when left out; with `allowPrivateNetwork` the operating system's resolver. */
  readonly resolve?: Resolve
  /** Addresses that count as public though they are not: how tests reach a local receiver with the guard up. */
  readonly exemptAddresses?: ReadonlyArray<string>
  /** PEM certificates to trust in place of Node's. */
  readonly certificateAuthorities?: ReadonlyArray<string>
  /** Resolution, TCP and TLS together. */
  readonly connectTimeoutMillis?: number
  /** The whole attempt, to the answer's last byte that is read. */
  readonly totalTimeoutMillis?: number
  /** How long an unused connection is kept, whatever the receiver offers. */
  readonly keepAliveMillis?: number
  /** The age at which a connection is replaced and its host resolved anew, however busy it is. */
  readonly connectionAgeMillis?: number
  /** With this many connections open, further ones are closed after one request. */
  readonly maxKeptConnections?: number
}

/** Told once how a request ended, unless it is aborted before. */
export type Done = (outcome: Answer | ConnectorError) => void

/**
 * The only way out to addresses that integrators choose (contract section 4, rule 6; decisions, section 7).
 *
 * `post` begins a request and gives what aborts it. It ends with any status that arrives in time, 3xx included: redirects
 * are not followed; and with {@link ConnectorError} when there is none. It connects only to addresses that have been
 * checked, over TLS verified against the host name, and is bounded in time at every stage, in memory and in connections.
 * It reads at most 4 KiB of the answer and decompresses nothing. It never retries. (A fiber for each request would cost a
 * seventh of the worker's time, hence the callback.)
 */
export class Connector extends Context.Service<Connector, {
  readonly post: (input: PostInput, done: Done) => () => void
}>()("@card-rewards/worker/Connector") {
  static readonly layer = (options: ConnectorOptions): Layer.Layer<Connector> =>
    Layer.effect(Connector, make(options))
}

const make = Effect.fnUntraced(function*(options: ConnectorOptions) {
  const { allowPrivateNetwork, totalTimeoutMillis = 15_000, maxKeptConnections = 1024 } = options
  const connections = yield* guardedConnections({
    resolve: options.resolve ?? (allowPrivateNetwork ? systemResolver : dnsResolver()),
    allowPrivateNetwork,
    exemptAddresses: options.exemptAddresses ?? [],
    certificateAuthorities: options.certificateAuthorities,
    connectTimeoutMillis: options.connectTimeoutMillis ?? 5000
  })
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() =>
      new Agent({
        connect: connections.connect,
        allowH2: false,
        pipelining: 1,
        maxCachedSessions: 0,
        keepAliveTimeout: options.keepAliveMillis ?? 4000,
        keepAliveMaxTimeout: options.keepAliveMillis ?? 4000,
        clientTtl: options.connectionAgeMillis ?? 60_000,
        // One clock bounds the attempt: the time-out in `post`.
        headersTimeout: 0,
        bodyTimeout: 0
      })
    ),
    (agent) => Effect.promise(() => agent.destroy())
  )

  const clock = yield* Clock.Clock
  const targetOf = targets(allowPrivateNetwork)
  const nowMillis = () => clock.currentTimeMillisUnsafe()
  const post = (input: PostInput, done: Done) => {
    const collector = new AnswerCollector({ done, nowMillis, withinMillis: totalTimeoutMillis })
    const target = targetOf(input.url)
    if (target === undefined) {
      collector.abort()
      done(ConnectorError.because("url_refused"))
    } else {
      agent.dispatch({
        ...target,
        method: "POST",
        headers: { ...input.headers, "accept-encoding": "identity" },
        body: input.body,
        reset: connections.open() >= maxKeptConnections
      }, collector)
    }
    return () => collector.abort()
  }

  return Connector.of({ post })
})

/** How many addresses a process keeps taken apart. */
const maxTargets = 1_000

/** Takes URLs apart; undefined where one may not be called. */
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

/** undici's connection maker, and how many of its connections are open. What is under way ends with the scope. */
const guardedConnections = Effect.fnUntraced(function*(options: GuardOptions) {
  const run = yield* FiberSet.makeRuntime()
  let open = 0
  const connect: buildConnector.connector = (target, callback) => {
    const fiber = run(guardedSocket(target, options))
    fiber.addObserver((exit) => {
      if (Exit.isFailure(exit)) return callback(failureOf(exit), null)
      open++
      exit.value.once("close", () => open--)
      callback(null, exit.value)
    })
  }
  return { connect, open: () => open }
})

const failureOf = (exit: Exit.Exit<unknown, ConnectorError>): ConnectorError =>
  Exit.findErrorOption(exit).pipe((error) => error._tag === "Some" ? error.value : ConnectorError.because("closed"))
