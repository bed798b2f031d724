import ipaddr from "ipaddr.js"
import { isIP } from "node:net"

/**
 * Whether an address that a resolver gave, or that stands in a URL, is one that anybody on the internet can be reached
 * at (decisions, section 7).
 *
 * IPv4: what no special-purpose registry names. IPv6: what lies in 2000::/3, the only space given out for that, and in
 * no special range of it (6to4, Teredo, documentation, benchmarking, ORCHID, AS112 …). So v4-mapped, v4-compatible,
 * NAT64, ULA, link-local, site-local and zoned addresses are not public, whatever stands in their last bits. Neither is
 * text that is no address in canonical form, such as an octal or a short one.
 */
export const isPublicAddress = (address: string): boolean => {
  if (isIP(address) === 0 || address.includes("%")) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== "unicast") return false
  return parsed.kind() === "ipv4" || ipaddr.subnetMatch(parsed, { global: [globalUnicast] }, "other") === "global"
}

/** RFC 4291, section 2.4, as the IANA registry narrows it. */
const globalUnicast: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse("2000::"), 3]
