/** The number of lanes of an integrator. It cannot change, because stored rows have their lane. */
export const laneCount = 16

/**
 * The lane of a user: 32-bit FNV-1a over the UTF-8 of its id, modulo {@link laneCount}. It never changes for an id,
 * because the lane orders a user's events and attribute records.
 */
export const laneOf = (userId: string): number => {
  const { written } = encoder.encodeInto(userId, utf8)
  let hash = 0x811c9dc5
  for (let at = 0; at < written; at++) hash = Math.imul(hash ^ (utf8[at] ?? 0), 0x01000193)
  return (hash >>> 0) % laneCount
}

const encoder = new TextEncoder()

/** Room for the longest id, of 128 code points; a buffer for each id would take six times as long. */
const utf8 = new Uint8Array(512)
