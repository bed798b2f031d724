import { Effect } from "effect"
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { ConnectorError } from "./ConnectorError.ts"
import { isPublicAddress } from "./PublicAddress.ts"
import type { Resolve } from "./Resolver.ts"

/** The target of a connection, as undici passes it. IPv6 literals have no brackets. */
export interface Target {
  readonly hostname: string
  readonly protocol: string
  readonly port: string
}

/** A connected socket. Without TLS `tcp` is the same one. */
export interface OpenSocket {
  readonly socket: Socket
  /** Counts all bytes that arrive, also those of TLS. */
  readonly tcp: { readonly bytesRead: number }
}

export interface GuardOptions {
  readonly resolve: Resolve
  readonly allowPrivateNetwork: boolean
  readonly exemptAddresses: ReadonlyArray<string>
  readonly certificateAuthorities: ReadonlyArray<string> | undefined
  readonly connectTimeoutMillis: number
}

/**
 * Connects to one of the target's addresses, after checking that all of them are public.
 *
 * The name is resolved once, and Node connects to the checked addresses without a lookup of its own. So DNS rebinding
 * between check and connection has no effect. The certificate of an `https` target is verified against the name.
 * Resolution, connection and handshake together take at most `connectTimeoutMillis`. An interruption or a timeout
 * destroys the socket.
 */
export const guardedSocket = (target: Target, options: GuardOptions): Effect.Effect<OpenSocket, ConnectorError> =>
  checkedAddresses(target.hostname, options).pipe(
    Effect.flatMap((addresses) => openSocket(target, addresses, options)),
    Effect.timeoutOrElse({
      duration: options.connectTimeoutMillis,
      orElse: () => ConnectorError.because("connect_timeout")
    })
  )

/** The maximum number of addresses of one name, because each of them is checked. */
const maxAddresses = 64

const checkedAddresses = Effect.fnUntraced(function*(host: string, options: GuardOptions) {
  // Node does not call `lookup` for a literal address, so it is checked here like a resolved one
  const addresses = isIP(host) === 0 ? yield* options.resolve(host) : [host]
  if (addresses.length === 0 || addresses.length > maxAddresses) return yield* ConnectorError.because("dns")
  const acceptable = (address: string) =>
    isPublicAddress(address) || options.exemptAddresses.includes(address) ||
    (options.allowPrivateNetwork && isIP(address) !== 0)
  return addresses.every(acceptable) ? addresses : yield* ConnectorError.because("address_refused")
})

/**
 * How long each of so many addresses but the last is tried: as long as leaves time for all, but no less than Node's own
 * 250 ms, in which some receivers do not accept.
 */
const addressTimeoutMillis = (addresses: number): number =>
  Math.max(250, Math.min(2_000, Math.floor(4_000 / addresses)))

const openSocket = (target: Target, addresses: ReadonlyArray<string>, options: GuardOptions) =>
  Effect.callback<OpenSocket, ConnectorError>((resume) => {
    const secure = target.protocol === "https:"
    const failWith = (error: unknown) => resume(Effect.fail(ConnectorError.from(error)))
    const tcp = connectTcp({
      host: target.hostname,
      port: Number(target.port === "" ? (secure ? 443 : 80) : target.port),
      lookup: fixedLookup(addresses),
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: addressTimeoutMillis(addresses.length),
      noDelay: true
    })
    let socket = tcp
    // these listeners stay attached, because an error before undici adds its own would otherwise be unhandled
    tcp.on("error", failWith)
    tcp.once("close", () => failWith(ConnectorError.because("reset")))
    tcp.once("connect", () => {
      if (!secure) return resume(Effect.succeed({ socket, tcp }))
      // Node destroys both sockets when it destroys one of them
      socket = startTls(tcp, target.hostname, options)
      socket.on("error", failWith)
      socket.once("secureConnect", () => resume(Effect.succeed({ socket, tcp })))
    })
    return Effect.sync(() => {
      socket.destroy()
    })
  })

/** Starts TLS on a connected socket. The certificate must be valid for `host`. */
const startTls = (tcp: Socket, host: string, { certificateAuthorities }: GuardOptions) =>
  connectTls({
    socket: tcp,
    host,
    // SNI may not contain an address; without it Node compares the certificate with `host`
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(certificateAuthorities === undefined ? {} : { ca: [...certificateAuthorities] }),
    ALPNProtocols: ["http/1.1"],
    rejectUnauthorized: true
  })

/** A lookup function that returns these addresses. */
const fixedLookup = (addresses: ReadonlyArray<string>): LookupFunction => (_host, options, callback) => {
  const [first] = addresses
  if (options.all === true) callback(null, addresses.map((address) => ({ address, family: isIP(address) })))
  else if (first === undefined) callback(new Error("no address"), "")
  else callback(null, first, isIP(first))
}
