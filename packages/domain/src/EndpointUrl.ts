/**
 * The rules for the text of a webhook URL (contract section 4, rule 6; decisions, section 7): `https`, a DNS name with
 * a dot, no IP address in any spelling, no local or internal name, no credentials, no fragment. The worker checks the
 * addresses to which the host name resolves at each connection.
 */

export interface EndpointUrlOptions {
  /** For development and tests only: `http`, IP addresses and local names are allowed as well. */
  readonly allowPrivateNetwork: boolean
}

/**
 * Returns why `url` is refused as a webhook endpoint, as a sentence for the message of `EndpointUrlRefused`; undefined
 * if it is accepted. The sentence never repeats the URL. The caller checks the length.
 *
 * An accepted URL without `allowPrivateNetwork` is absolute and `https`. Its host, after the normalisation of every
 * WHATWG parser (case, percent signs, full-width characters, IDN, numbers), is a DNS name with a dot that is neither an
 * IP address nor a local or internal name. It has no credentials, no fragment, and no character that two parsers could
 * read differently.
 */
export const refuse = (url: string, options: EndpointUrlOptions): string | undefined => {
  const refusal = refuseText(url, options)
  if (refusal !== undefined) return refusal
  const parsed = URL.parse(url)
  if (parsed === null) return "the URL cannot be parsed"
  if (parsed.port === "0") return "port 0 cannot be connected to"
  return options.allowPrivateNetwork ? undefined : refuseHost(parsed.hostname)
}

/** Checks that come before parsing, because the parser silently repairs or drops these characters. */
const refuseText = (url: string, { allowPrivateNetwork }: EndpointUrlOptions): string | undefined => {
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
  // a percent sign can encode the @
  if (authority.includes("@") || /%40/i.test(authority)) return "the URL has credentials"
  return undefined
}

/** `host` is normalised by the parser: lower case ASCII, and numbers in any notation as dotted decimals. */
const refuseHost = (host: string): string | undefined => {
  if (host.startsWith("[") || /^\d+(\.\d+){3}\.?$/.test(host)) return "the host is an IP address, not a name"
  if (host.endsWith(".")) return "the host ends in a dot"
  const labels = host.split(".")
  const topLevel = labels.at(-1) ?? ""
  const isLocal = localNames.some((name) => host === name || host.endsWith(`.${name}`))
  if (isLocal) return "the host is a local or internal name"
  if (labels.length < 2) return "the host has no dot: it is not a public DNS name"
  const isName = host.length <= maxNameLength && labels.every((label) => labelPattern.test(label))
  if (!isName) return "the host is not a DNS name"
  if (!topLevelPattern.test(topLevel)) return "the host does not end in a top-level domain"
  return undefined
}

/** RFC 1035, section 2.3.4, without the dot of the root. */
const maxNameLength = 253

/** 1 to 63 letters, digits, hyphens and underscores, which DNS allows and wildcard certificates cover. */
const labelPattern = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/

/** RFC 3696, section 2: a top-level domain is not numeric; all that exist are letters or punycode. */
const topLevelPattern = /^([a-z]{2,63}|xn--[a-z0-9-]{1,59})$/

/**
 * The names of section 7 of the decisions, and the names in private use of RFC 6762, appendix G, none of which is
 * delegated: the contract's "local or internal names" include them.
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
