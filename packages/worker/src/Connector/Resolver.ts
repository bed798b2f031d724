import { Duration, Effect } from "effect"
import { promises as dns } from "node:dns"
import { ConnectorError } from "./ConnectorError.ts"

export interface ResolvedAddress {
  readonly address: string
  readonly family: 4 | 6
}

/** Resolves all addresses of a host name. Fails with `dns` where there are none, or after a timeout. */
export type Resolve = (host: string) => Effect.Effect<ReadonlyArray<ResolvedAddress>, ConnectorError>

export interface DnsResolverOptions {
  /** `address` or `address:port`; the system's servers when absent. */
  readonly servers?: ReadonlyArray<string>
  /** How long a first try waits for its answer. The second one ends after the same time again; 1 s when absent. */
  readonly timeoutMillis?: number
}

/**
 * Resolves names by DNS queries for A and AAAA records.
 *
 * Unlike `getaddrinfo` (`dns.lookup`) it uses neither `/etc/hosts` nor the search domains of `/etc/resolv.conf`, and
 * occupies none of the four threads of the process's pool, so that an unresponsive name server delays no other request.
 * Some name servers never answer queries for AAAA. Then the addresses of the other family are returned after two tries.
 */
export const dnsResolver = ({ servers, timeoutMillis = 1000 }: DnsResolverOptions = {}): Resolve => {
  const resolver = new dns.Resolver({ timeout: timeoutMillis, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  const records = (query: () => Promise<ReadonlyArray<string>>, family: 4 | 6) =>
    Effect.tryPromise({ try: query, catch: () => ConnectorError.because("dns") }).pipe(
      // the resolver itself doubles the timeout for the second try, and makes two tries for each server
      Effect.timeoutOrElse({ duration: 2 * timeoutMillis, orElse: () => ConnectorError.because("dns") }),
      Effect.map((addresses) => addresses.map((address): ResolvedAddress => ({ address, family }))),
      Effect.result
    )
  return Effect.fnUntraced(function*(host) {
    const results = yield* Effect.all([
      records(() => resolver.resolve4(host), 4),
      records(() => resolver.resolve6(host), 6)
    ], { concurrency: 2 })
    // many names have addresses of one family only
    const addresses = results.flatMap((result) => result._tag === "Success" ? result.success : [])
    return addresses.length > 0 ? addresses : yield* ConnectorError.because("dns")
  })
}

/** Resolves names by the operating system, including `/etc/hosts`; for development, where `localhost` must resolve. */
export const systemResolver: Resolve = Effect.fnUntraced(function*(host) {
  const found = yield* Effect.tryPromise({
    try: () => dns.lookup(host, { all: true, order: "verbatim" }),
    catch: () => ConnectorError.because("dns")
  })
  return found.map(({ address, family }): ResolvedAddress => ({ address, family: family === 6 ? 6 : 4 }))
}, Effect.timeoutOrElse({ duration: Duration.seconds(5), orElse: () => ConnectorError.because("dns") }))
