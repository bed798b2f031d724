import { plainProgram } from "@card-rewards/domain/PlainProgram"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import type { Operation } from "./Operation.ts"

/** Which kind of faults a story can find. */
export type Kind = "one user owes" | "many users owe" | "claims" | "due before they are funded"

export const kinds: ReadonlyArray<Kind> = ["one user owes", "many users owe", "claims", "due before they are funded"]

/** The size of a story. */
export interface Size {
  readonly users: number
  /** The approximate number of clearings. */
  readonly clearings: number
  /** The number of rounds, in each of which rewards are paid, owed, earned, funded and come due. */
  readonly rounds: number
}

const minute = 60_000
const day = 24 * 60 * minute
const holding = 14 * day

/** 1 % in USDC: a purchase of one cent earns 100 units. */
export const program = (name: string, holdingPeriodDays: number): Operation => ({
  op: "publish",
  program: name,
  version: 1,
  leadMillis: 5 * minute,
  roundMillis: 1,
  definition: { ...plainProgram, caps: { perMonth: `${10n ** 30n}`, categories: [] }, holdingPeriodDays }
})

/**
 * A story in which many rewards are due, assigned and waiting while much is owed: rewards are paid and refunded, and
 * later rewards recover what is owed. The same seed results in the same story.
 */
export const generateSizes = (kind: Kind, seed: number, size: Size): ReadonlyArray<Operation> =>
  new Story(kind, seed, size).operations()

class Story {
  private readonly kind: Kind
  private readonly size: Size
  private readonly random: SeededRandom.SeededRandom
  private readonly holdsUntilOneTime: boolean
  private cleared = 0
  private refunded = 0
  private references = 0

  constructor(kind: Kind, seed: number, size: Size) {
    this.kind = kind
    this.size = size
    this.random = SeededRandom.make(seed)
    this.holdsUntilOneTime = this.chance(0.4)
  }

  private below(limit: number): number {
    return this.random.below(limit)
  }

  private chance(probability: number): boolean {
    return this.random.chance(probability)
  }

  private pick<A>(first: A, ...others: ReadonlyArray<A>): A {
    return [first, ...others][this.below(others.length + 1)] ?? first
  }

  operations(): ReadonlyArray<Operation> {
    const { rounds, users } = this.size
    return [
      ...Array.from({ length: users }, (_, index): Operation => ({ op: "put", user: `u${index + 1}`, attributes: {} })),
      program("p", 14),
      ...(this.chance(0.2) ? [program("at once", 0)] : []),
      { op: "clock", to: 2 * holding },
      ...this.clear(this.share(this.kind === "claims" ? 0.5 : 0.2), holding),
      this.deposit(10_000),
      ...this.claims(),
      ...Array.from({ length: rounds }, () => this.round()).flat(),
      { op: "clock", to: holding },
      ...(this.chance(0.5) ? [{ op: "worker" as const }] : [{ op: "read" as const, user: this.user() }]),
      this.deposit(10_000),
      { op: "check" }
    ]
  }

  /** The number of clearings of a part of the story. */
  private share(of: number): number {
    return Math.max(1, Math.floor(this.size.clearings * of))
  }

  /** Refunds make users owe, more is earned and funded, and time passes in one step or in several. */
  private round(): ReadonlyArray<Operation> {
    const earned = this.share(0.8 / this.size.rounds)
    const owes = this.refunds(1 + this.below(this.pick(2, 5, this.share(0.3))))
    const earns = this.clear(this.pick(earned, Math.ceil(earned / 2)))
    return [
      ...(this.chance(0.5) ? [...owes, ...earns] : [...earns, ...owes]),
      ...this.deposits(),
      ...(this.chance(0.4) ? this.clear(Math.ceil(earned / 2)) : []),
      ...(this.chance(0.4) ? this.deposits() : []),
      ...Array.from({ length: 1 + this.below(3) }, () => [this.clock(), ...this.touch()]).flat(),
      ...(this.chance(0.7) ? [...this.claims(), ...this.afterClaim()] : [])
    ]
  }

  /** An operation that applies due rewards: of all users, of one user, or only of users who owe. */
  private touch(): ReadonlyArray<Operation> {
    const dice = this.below(100)
    if (dice < 25) return [{ op: "read", user: this.user() }]
    if (dice < 40) return [{ op: "worker" }]
    if (dice < 55) return [this.deposit(this.pick(500, 3_000, 8_000, 10_000))]
    if (dice < 65) return this.clear(1)
    if (dice < 75) return this.refunds(this.pick(1, 2, this.share(0.05)))
    if (dice < 85) return this.claims()
    if (dice < 88) return [this.move("withdraw", this.pick(100, 1_000))]
    if (dice < 91) return [{ op: "check" }]
    return []
  }

  /** Refunds of rewards that were just paid, at the same moment; then claims, or the worker. */
  private afterClaim(): ReadonlyArray<Operation> {
    if (!this.chance(0.6)) return []
    const next = this.pick<ReadonlyArray<Operation>>([], this.claims(), [{ op: "worker" }], [this.clock()])
    return [...this.refunds(this.pick(1, 3, this.share(0.1))), ...next]
  }

  private user(): string {
    const { users } = this.size
    return this.kind === "many users owe" || this.chance(0.1) ? `u${1 + this.below(users)}` : "u1"
  }

  private cents(): bigint {
    return this.pick(1n, 2n, 10n, 50n, 60n, 100n, 101n, 250n, 1_000n)
  }

  /** The age of a purchase, so that rewards are due at once, at one later time, or at many times. */
  private ago(): number {
    if (this.kind === "due before they are funded" && this.chance(0.7)) return this.pick(holding, holding + day)
    if (this.holdsUntilOneTime) return this.pick(0, 4 * day, 4 * day, 9 * day)
    return this.chance(0.2) ? this.pick(0, holding) : this.below(holding / minute) * minute
  }

  private clear(count: number, ago?: number): ReadonlyArray<Operation> {
    return Array.from({ length: count }, (): Operation => ({
      op: "spend",
      user: this.user(),
      kind: "clearing",
      transaction: `c${++this.cleared}`,
      currency: "USD",
      cents: this.cents(),
      mcc: "5411",
      agoMillis: ago ?? this.ago(),
      later: true
    }))
  }

  /** Refunds of paid rewards, sometimes of any; mostly of the whole remaining amount. */
  private refunds(count: number): ReadonlyArray<Operation> {
    const ofPaid = this.chance(0.75)
    return Array.from({ length: count }, (): Operation => ({
      op: "refund",
      transaction: `r${++this.refunded}`,
      ofPaid,
      pick: this.below(1_000_000),
      share: this.chance(0.7) ? 10_000 : 1 + this.below(9_999)
    }))
  }

  private move(op: "deposit" | "withdraw" | "claim", share: number): Operation {
    const reference = `ref${++this.references}`
    return { op, asset: "USDC", user: "u1", reference, amount: { share }, pick: this.below(1_000) }
  }

  private deposit(share: number): Operation {
    return this.move("deposit", share)
  }

  private deposits(): ReadonlyArray<Operation> {
    return Array.from({ length: 1 + this.below(2) }, () => this.deposit(this.pick(1_000, 5_000, 9_000, 10_000, 10_000)))
  }

  /** Claims of all or of a part of the money, which mostly pays the last reward in part. */
  private claims(): ReadonlyArray<Operation> {
    const count = this.kind === "many users owe" ? Math.ceil(this.size.users / 4) : this.pick(1, 1, 2)
    const whole = this.kind === "many users owe" || this.chance(0.5)
    return Array.from({ length: count }, () =>
      this.move("claim", whole ? 10_000 : this.pick(9_999, 9_000, 5_001, 3_333)))
  }

  private clock(): Operation {
    const to = this.pick<"claimable" | "before" | number>("claimable", "before", 1, day, day, 3 * day, 5 * day, holding)
    return { op: "clock", to }
  }
}
