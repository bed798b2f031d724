import { Effect } from "effect"
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { ConnectorError } from "./ConnectorError.ts"
import { isPublicAddress } from "./PublicAddress.ts"
import type { Resolve, ResolvedAddress } from "./Resolver.ts"

/** Where to connect to, as undici says it. IPv6 literals are without brackets. */
export interface Target {
  readonly hostname: string
  readonly protocol: string
  readonly port: string
}

export interface GuardOptions {
  readonly resolve: Resolve
  readonly allowPrivateNetwork: boolean
  readonly exemptAddresses: ReadonlyArray<string>
  readonly certificateAuthorities: ReadonlyArray<string> | undefined
  readonly connectTimeoutMillis: number
}

/**
 * A connection to one of the target's addresses, made after all of them have been found public.
 *
 * The name is resolved once, and Node is handed the checked addresses in place of a lookup of its own: between check
 * and use there is no second answer that could differ. `https` is verified against the name. Resolution, connection and
 * handshake together take at most `connectTimeoutMillis`; when interrupted or late, the socket is destroyed.
 */
export const guardedSocket = (target: Target, options: GuardOptions): Effect.Effect<Socket, ConnectorError> =>
  checkedAddresses(target.hostname, options).pipe(
    Effect.flatMap((addresses) => openSocket(target, addresses, options)),
    Effect.timeoutOrElse({
      duration: options.connectTimeoutMillis,
      orElse: () => ConnectorError.because("connect_timeout")
    })
  )

/** No honest name has more; the check is done on each. */
const maxAddresses = 64

const checkedAddresses = Effect.fnUntraced(function*(host: string, options: GuardOptions) {
  // Node does not call `lookup` for an address, so an address is checked here like an answer.
  const literal = isIP(host)
  const addresses = literal === 0
    ? yield* options.resolve(host)
    : [{ address: host, family: literal === 6 ? 6 : 4 } satisfies ResolvedAddress]
  if (addresses.length === 0 || addresses.length > maxAddresses) return yield* ConnectorError.because("dns")
  const acceptable = ({ address }: ResolvedAddress) =>
    isPublicAddress(address) || options.exemptAddresses.includes(address) ||
    (options.allowPrivateNetwork && isIP(address) !== 0)
  return addresses.every(acceptable) ? addresses : yield* ConnectorError.because("address_refused")
})

const openSocket = (target: Target, addresses: ReadonlyArray<ResolvedAddress>, options: GuardOptions) =>
  Effect.callback<Socket, ConnectorError>((resume) => {
    const secure = target.protocol === "https:"
    const tcp = {
      host: target.hostname,
      port: Number(target.port === "" ? (secure ? 443 : 80) : target.port),
      lookup: answering(addresses),
      autoSelectFamily: true,
      noDelay: true
    }
    const socket = secure
      ? connectTls({
        ...tcp,
        // A server name may not be an address; Node then compares the certificate with `host`.
        ...(isIP(target.hostname) === 0 ? { servername: target.hostname } : {}),
        ...(options.certificateAuthorities === undefined ? {} : { ca: [...options.certificateAuthorities] }),
        ALPNProtocols: ["http/1.1"],
        rejectUnauthorized: true
      })
      : connectTcp(tcp)
    // Stays attached: between here and undici's own listeners an error must find one.
    socket.on("error", (error) => resume(Effect.fail(ConnectorError.from(error))))
    socket.once("close", () => resume(Effect.fail(ConnectorError.because("reset"))))
    socket.once(secure ? "secureConnect" : "connect", () => resume(Effect.succeed(socket)))
    return Effect.sync(() => {
      socket.destroy()
    })
  })

/** A lookup whose answer is known already. */
const answering = (addresses: ReadonlyArray<ResolvedAddress>): LookupFunction => (_host, options, callback) => {
  const [first] = addresses
  if (options.all === true) callback(null, addresses.map(({ address }) => ({ address, family: isIP(address) })))
  else if (first === undefined) callback(new Error("no address"), "")
  else callback(null, first.address, isIP(first.address))
}
