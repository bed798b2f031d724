import type { Simulation } from "@card-rewards/domain/Simulation"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Array, Effect } from "effect"

/** Entries of a list that are encoded between two turns of the event loop. */
const sliceEntries = 500

/** The JSON of `{"simulation": Simulation}`, as the schema would encode it; lists have up to 10,000 entries. */
export const encodeSimulation = Effect.fnUntraced(
  function*({ byCategory, byMonth, byTier, ...sums }: Simulation) {
    const head = JSON.stringify({
      ...sums,
      from: printTimestamp(sums.from),
      to: printTimestamp(sums.to),
      paid: sums.paid.toString(),
      wouldPay: sums.wouldPay.toString(),
      cappedAway: sums.cappedAway.toString()
    } satisfies Omit<typeof Simulation.Encoded, "byCategory" | "byMonth" | "byTier">)
    const lists = `"byMonth":${yield* encodeParts(byMonth)},"byCategory":${yield* encodeParts(byCategory)},` +
      `"byTier":${yield* encodeParts(byTier)}`
    return `{"simulation":${head.slice(0, -1)},${lists}}}`
  }
)

const encodeParts = Effect.fnUntraced(function*(parts: Simulation["byTier"]) {
  const texts: globalThis.Array<string> = []
  for (const slice of Array.chunksOf(parts, sliceEntries)) {
    const encoded = slice.map(({ key, paid, wouldPay }) => ({
      key,
      paid: paid.toString(),
      wouldPay: wouldPay.toString()
    } satisfies (typeof Simulation.Encoded)["byTier"][number]))
    texts.push(JSON.stringify(encoded).slice(1, -1))
    yield* Effect.yieldNow
  }
  return `[${texts.join(",")}]`
})
