import { Duration, Effect } from "effect"
import { promises as dns } from "node:dns"
import { ConnectorError } from "./ConnectorError.ts"

export interface ResolvedAddress {
  readonly address: string
  readonly family: 4 | 6
}

/** All addresses of a host name. Fails with `dns` when there are none, or the answer takes too long. */
export type Resolve = (host: string) => Effect.Effect<ReadonlyArray<ResolvedAddress>, ConnectorError>

export interface DnsResolverOptions {
  /** `address` or `address:port`; the machine's own servers when left out. */
  readonly servers?: ReadonlyArray<string>
  /** For one of the two tries. */
  readonly timeoutMillis?: number
}

/**
 * Asks DNS for A and AAAA records, each name as it is written.
 *
 * Unlike `getaddrinfo` (`dns.lookup`) it reads neither `/etc/hosts` nor the search domains of `/etc/resolv.conf`, and
 * takes none of the four threads that the process shares for it, so a name server that never answers delays nobody
 * else.
 */
export const dnsResolver = ({ servers, timeoutMillis = 2000 }: DnsResolverOptions = {}): Resolve => {
  const resolver = new dns.Resolver({ timeout: timeoutMillis, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)
  const records = (query: () => Promise<ReadonlyArray<string>>, family: 4 | 6) =>
    Effect.tryPromise({ try: query, catch: () => ConnectorError.because("dns") }).pipe(
      Effect.map((addresses) => addresses.map((address): ResolvedAddress => ({ address, family }))),
      Effect.result
    )
  return Effect.fnUntraced(function*(host) {
    const results = yield* Effect.all([
      records(() => resolver.resolve4(host), 4),
      records(() => resolver.resolve6(host), 6)
    ], { concurrency: 2 })
    // A name with one kind of address only is usual; without any, the attempt fails.
    const addresses = results.flatMap((result) => result._tag === "Success" ? result.success : [])
    return addresses.length > 0 ? addresses : yield* ConnectorError.because("dns")
  })
}

/** The operating system's way, with `/etc/hosts`; for development, where `localhost` has to mean something. */
export const systemResolver: Resolve = Effect.fnUntraced(function*(host) {
  const found = yield* Effect.tryPromise({
    try: () => dns.lookup(host, { all: true, order: "verbatim" }),
    catch: () => ConnectorError.because("dns")
  })
  return found.map(({ address, family }): ResolvedAddress => ({ address, family: family === 6 ? 6 : 4 }))
}, Effect.timeoutOrElse({ duration: Duration.seconds(5), orElse: () => ConnectorError.because("dns") }))
