import ipaddr from "ipaddr.js"
import { isIP } from "node:net"

/**
 * Whether an address, resolved or literal, is globally reachable (decisions, section 7).
 *
 * IPv4: all addresses outside the special-purpose registries. IPv6: addresses in 2000::/3, the space allocated for
 * global unicast, outside its special ranges (6to4, Teredo, documentation, benchmarking, ORCHID, AS112 …). So
 * v4-mapped, v4-compatible, NAT64, ULA, link-local, site-local and zoned addresses are not public, whatever IPv4
 * address they embed. Text that is not a canonical address, such as an octal or shortened one, is not public either.
 */
export const isPublicAddress = (address: string): boolean => {
  if (isIP(address) === 0 || address.includes("%")) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== "unicast") return false
  return parsed.kind() === "ipv4" || ipaddr.subnetMatch(parsed, { global: [globalUnicast] }, "other") === "global"
}

/** RFC 4291, section 2.4, as the IANA registry narrows it. */
const globalUnicast: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse("2000::"), 3]
