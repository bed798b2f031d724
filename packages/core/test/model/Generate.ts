import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { type Choices, randomDefinition } from "./Definitions.ts"
import type { Kind } from "./Model.ts"
import type { Operation, Sum } from "./Operation.ts"
import type { AssetName, Attributes } from "./Rules.ts"

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

export const users = ["u1", "u2", "u3"]
const mccs = ["5411", "5812", "6011", "4111"]
const cents = [0n, 1n, 2n, 3n, 7n, 33n, 50n, 99n, 100n, 100n, 101n, 250n, 1_000n, 1_000n, 12_345n, 99_999n]
const programs: ReadonlyArray<readonly [string, AssetName]> = [
  ["pa", "USDC"],
  ["pB", "USDC"],
  ["p-3", "USDC"],
  ["pe", "EURe"],
  ["Pe", "EURe"]
]
const letters = { authorization: "a", incremental_authorization: "i", clearing: "c", reversal: "v", refund: "r" }

/** A sequence of operations; the same seed results in the same one. */
export const generate = (seed: number, length: number): ReadonlyArray<Operation> => {
  const { below, chance, pick: from } = SeededRandom.make(seed)
  const pick = <A>(first: A, ...others: ReadonlyArray<A>): A => [first, ...others][below(others.length + 1)] ?? first
  const some = <A>(list: ReadonlyArray<A>, probability: number) => list.filter(() => chance(probability))
  return new Generator({ below, chance, from, pick, some }).sequence(length)
}

/** One run's character, which is chosen first, and what it has used so far. */
class Generator {
  private readonly choices: Choices
  private readonly hasLongHolding: boolean
  private readonly currency: "USD" | "EUR"
  private readonly asset: AssetName
  /** One unit of the currency as an estimate of the rewards that it earns, in the asset's smallest units. */
  private readonly unit: bigint
  private readonly owner: string
  private readonly isOfOneUser: boolean
  /** Almost only clearings, claims and refunds: much is owed and recovered. */
  private readonly isStorm: boolean
  private readonly counters = { authorization: 0, incremental_authorization: 0, clearing: 0, reversal: 0, refund: 0 }
  private references = 0

  constructor(choices: Choices) {
    const { chance, pick } = choices
    this.choices = choices
    this.hasLongHolding = chance(0.5)
    this.currency = chance(0.7) ? "USD" : "EUR"
    this.asset = this.currency === "USD" ? "USDC" : "EURe"
    this.unit = this.currency === "USD" ? 10_000n : 10n ** 16n
    this.owner = pick("u1", "u2")
    this.isOfOneUser = chance(0.4)
    this.isStorm = chance(0.4)
  }

  sequence(length: number): ReadonlyArray<Operation> {
    const { chance, some } = this.choices
    const start: Array<Operation> = [
      { op: "put", user: "u1", attributes: this.attributes() },
      { op: "put", user: "u2", attributes: this.attributes() },
      ...(chance(0.6) ? [{ op: "put" as const, user: "u3", attributes: this.attributes() }] : []),
      ...some(programs, 0.6).map((one) => this.publish(one, 2, true)),
      { op: "clock", to: 10 * minute }
    ]
    if (chance(0.5)) {
      start.push({ op: "deposit", asset: this.asset, user: "", reference: "start", amount: this.unit * 500n })
    }
    const rest = Array.from({ length }, () => this.step()).flat()
    // a check reads balances, and a read applies what is due: so some operations are followed by none
    const checks = chance(0.7) ? 0.7 : 0.2
    const check: Operation = { op: "check" }
    return [...start, ...rest.flatMap((operation) => chance(checks) ? [operation, check] : [operation]), check]
  }

  private attributes(): Attributes {
    const { chance, pick } = this.choices
    return {
      ...(chance(0.6) ? { tier: pick("gold", "silver", "lead") } : {}),
      ...(chance(0.6) ? { country: pick("DE", "FR") } : {}),
      ...(chance(0.5) ? { segment: pick("beta", "staff") } : {})
    }
  }

  private publish([program, asset]: readonly [string, AssetName], version: number, isSoon: boolean): Operation {
    const { chance, pick } = this.choices
    return {
      op: "publish",
      program,
      version,
      leadMillis: isSoon ? 5 * minute : pick(5 * minute - 1, 5 * minute, hour, 3 * day),
      roundMillis: isSoon ? 1 : pick(1, day, day),
      definition: randomDefinition(this.choices, chance(0.97) ? asset : "EURe", this.hasLongHolding)
    }
  }

  /** Mostly a new transaction, sometimes one that was used before. */
  private fresh(kind: Kind): string {
    const { below, chance } = this.choices
    const number = chance(0.9) ? ++this.counters[kind] : 1 + below(Math.max(1, this.counters[kind]))
    return `${letters[kind]}${number}`
  }

  /** One of the latest transactions, or one that comes later. */
  private near(kind: "authorization" | "clearing"): string {
    const { below, chance } = this.choices
    const back = below(kind === "clearing" ? 6 : 3)
    return `${letters[kind]}${Math.max(1, this.counters[kind] + 1 - back + (chance(0.15) ? 2 : 0))}`
  }

  private spender(): string {
    const { chance, pick } = this.choices
    return this.isOfOneUser && chance(0.9) ? this.owner : pick("u1", "u1", "u1", "u2", "u2", "u3")
  }

  private agoMillis(): number {
    return this.choices.pick(0, 0, 0, 0, -30_000, -minute, 1, minute, hour, hour, day, day, 2 * day, 13 * day, 33 * day)
  }

  private kind(): Kind {
    const { chance, pick } = this.choices
    if (this.isStorm && chance(0.8)) return pick<Kind>("clearing", "clearing", "refund")
    return pick<Kind>(
      "authorization", "authorization", "incremental_authorization", "clearing", "clearing", "clearing", "clearing",
      "clearing", "reversal", "refund", "refund", "refund", "refund"
    )
  }

  private original(kind: Kind): string | undefined {
    if (kind === "refund") return this.near("clearing")
    if (kind === "authorization" || (kind === "clearing" && this.choices.chance(0.7))) return undefined
    return this.near("authorization")
  }

  private spend(): Operation {
    const { chance, from, pick } = this.choices
    const kind = this.kind()
    const original = this.original(kind)
    return {
      op: "spend",
      user: chance(0.01) ? "ghost" : this.spender(),
      kind,
      transaction: this.fresh(kind),
      currency: chance(0.88) ? this.currency : pick("USD", "EUR", "JPY"),
      cents: from(cents),
      mcc: from(mccs),
      agoMillis: chance(0.01) ? -minute - 1 : this.agoMillis(),
      ...(original === undefined ? {} : { original }),
      later: chance(0.15)
    }
  }

  private nextReference(): string {
    return `ref${++this.references}`
  }

  private movement(op: "deposit" | "withdraw" | "claim"): Operation {
    const { below, chance, pick } = this.choices
    return {
      op,
      asset: chance(0.85) ? this.asset : pick("USDC", "EURe"),
      user: chance(0.02) ? "ghost" : this.spender(),
      reference: chance(0.95) ? this.nextReference() : `ref${below(this.references + 1)}`,
      amount: this.amount()
    }
  }

  private amount(): Sum {
    const { chance, pick } = this.choices
    if (this.isStorm && chance(0.5)) return "first"
    return chance(0.15)
      ? pick<Sum>("first-1", "first+1", 0n)
      : pick<Sum>("first", "first", "first", "half", "half", this.unit * 10n, this.unit * 300n, 1n)
  }

  /** A purchase that is paid and then refunded, and mostly another one, whose reward recovers what is owed. */
  private regret(): ReadonlyArray<Operation> {
    const { chance, from, pick } = this.choices
    const { asset, currency, owner } = this
    const event = { op: "spend" as const, user: owner, currency, mcc: from(mccs), agoMillis: 0, later: false }
    const original = this.fresh("clearing")
    const operations: Array<Operation> = [
      { ...event, kind: "clearing", transaction: original, cents: 12_345n },
      { op: "clock", to: pick(0, day, 14 * day) },
      { op: "deposit", asset, user: "", reference: this.nextReference(), amount: "first" },
      { op: "claim", asset, user: owner, reference: this.nextReference(), amount: "first" },
      { ...event, kind: "refund", transaction: this.fresh("refund"), cents: from(cents), original, later: chance(0.5) }
    ]
    if (chance(0.7)) {
      const transaction = this.fresh("clearing")
      operations.push({ ...event, kind: "clearing", transaction, cents: from(cents), later: chance(0.5) })
    }
    operations.push({ op: "clock", to: pick<"claimable" | number>("claimable", 14 * day) })
    return operations
  }

  private step(): ReadonlyArray<Operation> {
    return this.choices.chance(this.isStorm ? 0.08 : 0.02) ? this.regret() : [this.next()]
  }

  private next(): Operation {
    const { below, chance, from, pick } = this.choices
    if (this.isStorm && chance(0.3)) return this.movement(chance(0.75) ? "claim" : "deposit")
    const dice = below(100)
    if (dice < 58) return this.spend()
    if (dice < 61) return { op: "again", pick: below(1_000) }
    if (dice < 69) {
      const to = ["claimable", "claimable", "before", 1, minute, hour, day, 14 * day, 31 * day] as const
      return { op: "clock", to: pick<"claimable" | "before" | number>(...to) }
    }
    if (dice < 76) return this.movement("deposit")
    if (dice < 78) return this.movement("withdraw")
    if (dice < 90) return this.movement("claim")
    if (dice < 93) return { op: "put", user: from(users), attributes: this.attributes() }
    if (dice < 96) return this.publish(from(programs), 1 + below(6), false)
    return { op: "worker" }
  }
}
