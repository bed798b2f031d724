/**
 * The rules a webhook URL has to meet when it is written down (contract section 4, rule 6; decisions, section 7).
 *
 * They refuse what can be seen in the URL itself. What a name resolves to is checked at each connection, by the
 * worker's connector.
 */

export interface EndpointUrlOptions {
  /** For development and tests only: `http`, IP addresses and local names are allowed as well. */
  readonly allowPrivateNetwork: boolean
}

/**
 * Why `url` may not be a webhook endpoint, as a sentence for the message of `EndpointUrlRefused`; `undefined` when it may.
 *
 * Guarantees of an accepted URL without `allowPrivateNetwork`: it is absolute and `https`; its host, after the
 * normalisation every WHATWG parser does (case, percent signs, full-width characters, IDN, numbers), is a DNS name with
 * a dot that is neither an IP address nor a local or internal name; it has no credentials, no fragment, and no
 * character that two parsers could read differently. Its length is the caller's to check. The sentence never repeats
 * the URL.
 */
export const refuse = (url: string, options: EndpointUrlOptions): string | undefined => {
  const written = refuseAsWritten(url, options)
  if (written !== undefined) return written
  const parsed = URL.parse(url)
  if (parsed === null) return "the URL cannot be parsed"
  if (parsed.port === "0") return "port 0 cannot be connected to"
  return options.allowPrivateNetwork ? undefined : refuseHost(parsed.hostname)
}

/** What has to be seen before parsing, because the parser would silently repair or drop it. */
const refuseAsWritten = (url: string, { allowPrivateNetwork }: EndpointUrlOptions): string | undefined => {
  if (!url.isWellFormed()) return "the URL has an unpaired surrogate"
  if (/[\s\p{C}]/u.test(url)) return "the URL has white space, a control or an invisible character"
  if (url.includes("\\")) return "the URL has a backslash"
  if (url.includes("#")) return "the URL has a fragment"
  const authority = (allowPrivateNetwork ? /^https?:\/\/([^/?]+)/i : /^https:\/\/([^/?]+)/i).exec(url)?.[1]
  if (authority === undefined) {
    return allowPrivateNetwork
      ? "the URL must begin with http:// or https:// and a host"
      : "the URL must begin with https:// and a host"
  }
  // A percent sign in the authority can hide any other character from a reader.
  if (authority.includes("@") || /%40/i.test(authority)) return "the URL has credentials"
  return undefined
}

/** `host` is as the parser normalised it: lower case ASCII, numbers of any spelling as dotted decimals. */
const refuseHost = (host: string): string | undefined => {
  if (host.startsWith("[") || /^\d+(\.\d+){3}\.?$/.test(host)) return "the host is an IP address, not a name"
  if (host.endsWith(".")) return "the host ends in a dot"
  const labels = host.split(".")
  const topLevel = labels.at(-1) ?? ""
  if (localNames.some((name) => host === name || host.endsWith(`.${name}`))) return "the host is a local or internal name"
  if (labels.length < 2) return "the host has no dot: it is not a public DNS name"
  if (host.length > maxNameLength || !labels.every((label) => labelPattern.test(label))) return "the host is not a DNS name"
  if (!topLevelPattern.test(topLevel)) return "the host does not end in a top-level domain"
  return undefined
}

/** RFC 1035, section 2.3.4, without the root's dot. */
const maxNameLength = 253

/** Letters, digits, hyphens; the underscore, which DNS knows and wildcard certificates cover. 1 to 63 characters. */
const labelPattern = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/

/** RFC 3696, section 2: a top-level domain is not numeric; all that exist are letters or punycode. */
const topLevelPattern = /^([a-z]{2,63}|xn--[a-z0-9-]{1,59})$/

/**
 * The names of section 7 of the decisions, and those that RFC 6762, appendix G, names as in private use (none of them
 * is delegated), which the contract's "local or internal names" means too.
 */
const localNames = [
  "localhost",
  "local",
  "internal",
  "home.arpa",
  "localdomain",
  "intranet",
  "private",
  "corp",
  "home",
  "lan"
]
