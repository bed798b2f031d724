/** Reproducible choices. */
export interface Random {
  readonly below: (limit: number) => number
  readonly pick: <A>(values: ReadonlyArray<A>) => A
  readonly chance: (probability: number) => boolean
}

/** mulberry32: small, and the same on every machine. */
export const make = (seed: number): Random => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    below,
    chance: (probability) => next() < probability,
    pick: (values) => {
      const value = values[below(values.length)]
      if (value === undefined) throw new Error("There is nothing to pick from")
      return value
    }
  }
}
