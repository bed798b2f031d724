import { Clock, Duration, Effect, Fiber } from "effect"
import { promises as dns } from "node:dns"
import { ConnectorError } from "./ConnectorError.ts"

/** Resolves all IPv4 and IPv6 addresses of a host name. Fails with `dns` where there are none, or after a timeout. */
export type Resolve = (host: string) => Effect.Effect<ReadonlyArray<string>, ConnectorError>

export interface DnsResolverOptions {
  /** `address` or `address:port`, read once a minute; the system's servers when absent. */
  readonly servers?: () => ReadonlyArray<string>
  /** Timeout of each of the two tries; 2 s when absent. */
  readonly timeoutMillis?: number
}

/** How long servers are used before they are read again: the system's may change. */
const keptMillis = 60_000

/**
 * Resolves names by DNS queries for A and AAAA records.
 *
 * Unlike `getaddrinfo` (`dns.lookup`) it uses neither `/etc/hosts` nor the search domains of `/etc/resolv.conf`, and
 * occupies none of the four threads of the process's pool, so that an unresponsive name server delays no other request.
 */
export const dnsResolver = ({ servers, timeoutMillis = 2000 }: DnsResolverOptions = {}): Resolve => {
  const make = () => {
    const resolver = new dns.Resolver({ timeout: timeoutMillis, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers())
    return resolver
  }
  let kept: { readonly resolver: dns.Resolver; readonly sinceMillis: number } | undefined
  const current = Effect.map(Clock.currentTimeMillis, (now) => {
    // also where the clock was set back
    if (kept === undefined || Math.abs(now - kept.sinceMillis) >= keptMillis) {
      kept = { resolver: make(), sinceMillis: now }
    }
    return kept.resolver
  })
  // an answer to the second try, after a lost packet, is waited for
  const graceMillis = timeoutMillis + 500
  // many names have addresses of one family only
  const records = (query: () => Promise<ReadonlyArray<string>>) =>
    Effect.orElseSucceed(Effect.tryPromise(query), (): ReadonlyArray<string> => [])
  return Effect.fnUntraced(function*(host) {
    const resolver = yield* current
    const queries = [
      yield* Effect.forkChild(records(() => resolver.resolve4(host))),
      yield* Effect.forkChild(records(() => resolver.resolve6(host)))
    ]
    const first = yield* Effect.raceAllFirst(queries.map(Fiber.join))
    // some name servers never answer queries for AAAA
    const isEnough = Effect.andThen(first.length > 0 ? Effect.sleep(graceMillis) : Effect.never, Effect.succeed([]))
    const all = queries.map((query) => Effect.raceFirst(Fiber.join(query), isEnough))
    const addresses = (yield* Effect.all(all, { concurrency: 2 })).flat()
    return addresses.length > 0 ? addresses : yield* ConnectorError.because("dns")
  })
}

/** Resolves names by the operating system, including `/etc/hosts`; for development, where `localhost` must resolve. */
export const systemResolver: Resolve = Effect.fnUntraced(function*(host) {
  const found = yield* Effect.tryPromise({
    try: () => dns.lookup(host, { all: true, order: "verbatim" }),
    catch: () => ConnectorError.because("dns")
  })
  return found.map(({ address }) => address)
}, Effect.timeoutOrElse({ duration: Duration.seconds(5), orElse: () => ConnectorError.because("dns") }))
