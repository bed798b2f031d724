import ipaddr from "ipaddr.js"

const prefixBytes = 8

/**
 * What the failed authentications of one client are counted under: its IPv4 address, or the first 64 bits of its IPv6
 * address, since one client commonly has the whole of such a network (decisions, section 8).
 */
export const clientOf = (address: string): string => {
  if (!ipaddr.isValid(address)) return address
  // an IPv4 address that is mapped into IPv6 is taken as what it is
  const parsed = ipaddr.process(address)
  return parsed.kind() === "ipv4" ? parsed.toString() : parsed.toByteArray().slice(0, prefixBytes).join(".")
}
