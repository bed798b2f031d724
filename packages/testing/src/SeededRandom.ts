/** Reproducible random choices: the same for the same seed, on every machine. */
export interface SeededRandom {
  /** From 0 up to 1. */
  readonly next: () => number
  /** An integer from 0 up to `limit`, which is excluded. */
  readonly below: (limit: number) => number
  /** An integer from `low` to `high`, both included. */
  readonly integer: (low: number, high: number) => number
  /** One of the values, of which there is at least one. */
  readonly pick: <A>(values: ReadonlyArray<A>) => A
  /** True with this probability. */
  readonly chance: (probability: number) => boolean
  readonly shuffled: <A>(values: ReadonlyArray<A>) => ReadonlyArray<A>
}

/** The generator mulberry32, from a seed of 32 bits. */
export const make = (seed: number): SeededRandom => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    next,
    below,
    integer: (low, high) => low + below(high - low + 1),
    pick: (values) => {
      const value = values[below(values.length)]
      if (value === undefined) throw new Error("There is nothing to pick from")
      return value
    },
    chance: (probability) => next() < probability,
    shuffled: (values) =>
      values.map((value) => ({ value, rank: next() })).sort((a, b) => a.rank - b.rank).map(({ value }) => value)
  }
}

/** Parses `TEST_SEEDS`: a number of seeds, or single seeds as `7,8`, or `7,` for one. Throws for anything else. */
export const parseSeeds = (text: string): ReadonlyArray<number> => {
  if (!/^[1-9]\d*(,[1-9]\d*)*,?$/.test(text)) throw new Error(`Not a number of seeds, nor seeds as 7,8: ${text}`)
  return text.includes(",")
    ? text.split(",").filter((seed) => seed !== "").map(Number)
    : Array.from({ length: Number(text) }, (_, index) => index + 1)
}
