import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import type { Kind } from "../Spend.ts"
import type { AssetName } from "../Rules.ts"

export const minute = 60_000
export const hour = 60 * minute
export const day = 24 * hour

/** The character of a run, which is drawn once, and the random choices and ids of its operations. */
export interface Scenario {
  readonly random: SeededRandom.SeededRandom
  readonly ids: Ids
  /** The currency of most purchases, the asset that it earns, and smallest units in a cent of it. */
  readonly currency: "USD" | "EUR"
  readonly asset: AssetName
  readonly unit: bigint
  /** The user of nearly all operations, where `hasOneUser`. */
  readonly owner: string
  readonly hasOneUser: boolean
  /** Almost only clearings, claims and refunds: much is owed and recovered. */
  readonly isStorm: boolean
  /** Rewards mostly have a holding period. */
  readonly hasHoldingPeriods: boolean
}

export const scenarioOf = (seed: number): Scenario => {
  const random = SeededRandom.make(seed)
  const { chance, pick } = random
  const hasHoldingPeriods = chance(0.5)
  const isUsd = chance(0.7)
  return {
    random,
    ids: new Ids(random),
    currency: isUsd ? "USD" : "EUR",
    asset: isUsd ? "USDC" : "EURe",
    unit: isUsd ? 10_000n : 10n ** 16n,
    owner: pick(["u1", "u2"]),
    hasOneUser: chance(0.4),
    isStorm: chance(0.4),
    hasHoldingPeriods
  }
}

const letters = { authorization: "a", incremental_authorization: "i", clearing: "c", reversal: "v", refund: "r" }

/** Ids of transactions and references of moves, which are sometimes used again. */
class Ids {
  readonly #random: SeededRandom.SeededRandom
  readonly #transactions = { authorization: 0, incremental_authorization: 0, clearing: 0, reversal: 0, refund: 0 }
  #references = 0

  constructor(random: SeededRandom.SeededRandom) {
    this.#random = random
  }

  /** Mostly a new one, now and then one that was used. */
  transaction(kind: Kind): string {
    const { below, chance } = this.#random
    const number = chance(0.9) ? ++this.#transactions[kind] : 1 + below(Math.max(1, this.#transactions[kind]))
    return `${letters[kind]}${number}`
  }

  /** One of the latest, or one that comes later. */
  original(kind: "authorization" | "clearing"): string {
    const { below, chance } = this.#random
    const back = below(kind === "clearing" ? 6 : 3)
    return `${letters[kind]}${Math.max(1, this.#transactions[kind] + 1 - back + (chance(0.15) ? 2 : 0))}`
  }

  /** Mostly a new one, now and then one that was used. */
  reference(): string {
    const { below, chance } = this.#random
    return chance(0.95) ? this.newReference() : `ref${below(this.#references + 1)}`
  }

  newReference(): string {
    return `ref${++this.#references}`
  }
}

/** Each of the values with this probability. */
export const some = <A>(
  { chance }: SeededRandom.SeededRandom,
  values: ReadonlyArray<A>,
  probability: number
): ReadonlyArray<A> => values.filter(() => chance(probability))

/** The user of a spend event or claim: mostly the first user, or the owner. */
export const spender = ({ hasOneUser, owner, random: { chance, pick } }: Scenario): string =>
  hasOneUser && chance(0.9) ? owner : pick(["u1", "u1", "u1", "u2", "u2", "u3"])
