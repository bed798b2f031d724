import { Predicate, Schema, Struct } from "effect"
import { errors } from "undici"

const sentences = {
  url_refused: "the URL breaks the URL rules",
  dns: "the host name could not be resolved",
  address_refused: "the host has an address that is not public",
  connect_timeout: "no connection could be made in time",
  connection_refused: "the connection was refused",
  unreachable: "the host could not be reached",
  tls: "the TLS handshake failed, or the certificate is not valid for the host",
  timeout: "there was no answer in time",
  reset: "the connection was closed before the answer",
  protocol: "the answer is not valid HTTP",
  closed: "the service is shutting down",
  other: "the request failed"
} as const

export type ConnectorReason = keyof typeof sentences

/**
 * Why a request got no status. `reason` is a code that is stored with the attempt, `message` is a fixed sentence for
 * it. Neither reveals addresses, ports or certificates of a network.
 */
export class ConnectorError extends Schema.TaggedError<ConnectorError>()("ConnectorError", {
  reason: Schema.Literals(Struct.keys(sentences)),
  message: Schema.String
}) {
  static because(reason: ConnectorReason): ConnectorError {
    return new ConnectorError({ reason, message: sentences[reason] })
  }

  /** Maps an error of Node or undici. */
  static from(cause: unknown): ConnectorError {
    if (cause instanceof ConnectorError) return cause
    // an HTTPParserError does not always have a code
    return ConnectorError.because(cause instanceof errors.HTTPParserError ? "protocol" : reasonOf(codeOf(cause)))
  }
}

const codeOf = (cause: unknown): string =>
  Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""

const reasonOf = (code: string): ConnectorReason => {
  const known = reasonOfCode[code]
  if (known !== undefined) return known
  return tlsCodes.test(code) ? "tls" : "other"
}

/** Error codes of Node's TLS layer, of OpenSSL and of certificate verification. */
const tlsCodes = new RegExp(
  "^(ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_|"
    + "HOSTNAME_)"
)

const reasonOfCode: { readonly [code: string]: ConnectorReason | undefined } = {
  ECONNREFUSED: "connection_refused",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  EADDRNOTAVAIL: "unreachable",
  EACCES: "unreachable",
  EPERM: "unreachable",
  ETIMEDOUT: "connect_timeout",
  ECONNRESET: "reset",
  ECONNABORTED: "reset",
  EPIPE: "reset",
  UND_ERR_SOCKET: "reset",
  EPROTO: "tls",
  UND_ERR_HEADERS_OVERFLOW: "protocol",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "protocol",
  UND_ERR_DESTROYED: "closed",
  UND_ERR_CLOSED: "closed"
}
