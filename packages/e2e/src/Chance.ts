/** Random numbers that a seed gives again, so that a run can be repeated. */
export interface Chance {
  /** From 0 up to 1. */
  readonly next: () => number
  /** An integer from `low` to `high`, both included. */
  readonly integer: (low: number, high: number) => number
  readonly pick: <A>(from: readonly [A, ...ReadonlyArray<A>]) => A
  /** True this often, of 1. */
  readonly often: (share: number) => boolean
  readonly shuffled: <A>(list: ReadonlyArray<A>) => ReadonlyArray<A>
}

/** The sequence of a seed (Weyl sequence with an xor-shift-multiply finish, 32 bits). */
export const make = (seed: number): Chance => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x9e3779b9) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
  const integer = (low: number, high: number) => low + Math.floor(next() * (high - low + 1))
  return {
    next,
    integer,
    pick: ([first, ...rest]) => [first, ...rest][integer(0, rest.length)] ?? first,
    often: (share) => next() < share,
    shuffled: (list) => list.map((one) => ({ one, rank: next() })).sort((a, b) => a.rank - b.rank).map(({ one }) => one)
  }
}
