import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import type { Kind } from "./Model.ts"
import type { AssetName, Attributes, Definition } from "./Rules.ts"

/** What a run does, one thing after another; times and sums that depend on the moment are resolved when it is done. */
export type Operation =
  | { readonly op: "put"; readonly user: string; readonly attributes: Attributes }
  | {
    readonly op: "publish"
    readonly program: string
    readonly version: number
    /** From the clock's present time, up to the next multiple of `roundMillis`. */
    readonly leadMillis: number
    readonly roundMillis: number
    readonly definition: Omit<Definition, "effectiveFrom">
  }
  | {
    readonly op: "spend"
    readonly user: string
    readonly kind: Kind
    readonly transaction: string
    readonly currency: string
    readonly cents: bigint
    readonly mcc: string
    readonly agoMillis: number
    readonly original?: string
    /** Left in the queue until the next operation that processes. */
    readonly later: boolean
  }
  | { readonly op: "again"; readonly pick: number }
  | {
    readonly op: "refund"
    readonly transaction: string
    /** Of a reward that is paid, in part at least; else of any reward. */
    readonly ofPaid: boolean
    readonly pick: number
    /** Basis points of what is not refunded yet. */
    readonly share: number
  }
  | { readonly op: "clock"; readonly to: "claimable" | "before" | number }
  | {
    readonly op: "deposit" | "withdraw" | "claim"
    readonly asset: AssetName
    readonly user: string
    readonly reference: string
    readonly amount: Sum
    /** Which of the users with claimable money claims, where `amount` is a part of what there is. */
    readonly pick?: number
  }
  | { readonly op: "read"; readonly user: string }
  | { readonly op: "worker" }
  | { readonly op: "check" }

/**
 * `first` is what the first waiting reward needs (deposit), the free money (withdrawal) or all that is claimable;
 * `share` is basis points of all that waits, is free or is claimable.
 */
export type Sum = "first" | "first-1" | "first+1" | "half" | { readonly share: number } | bigint

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

export const users = ["u1", "u2", "u3"]
const mccs = ["5411", "5812", "6011", "4111"]
const tiers = ["gold", "silver"]
const cents = [0n, 1n, 2n, 3n, 7n, 33n, 50n, 99n, 100n, 100n, 101n, 250n, 1_000n, 1_000n, 12_345n, 99_999n]
const rates = [0, 1, 33, 100, 100, 150, 500, 10_000, 10_000]
const caps = {
  USDC: [0n, 1n, 9_999n, 100_000n, 1_000_000n, 10_000_000n],
  EURe: [0n, 7n, 10n ** 17n, 10n ** 18n, 10n ** 20n]
}

/** A sequence of operations; the same seed gives the same one. */
export const generate = (seed: number, length: number): ReadonlyArray<Operation> => {
  const { below, chance, pick: from } = SeededRandom.make(seed)
  const pick = <A>(first: A, ...others: ReadonlyArray<A>): A => [first, ...others][below(others.length + 1)] ?? first
  const some = <A>(list: ReadonlyArray<A>, probability: number) => list.filter(() => chance(probability))

  const attributes = (): Attributes => ({
    ...(chance(0.6) ? { tier: pick("gold", "silver", "lead") } : {}),
    ...(chance(0.6) ? { country: pick("DE", "FR") } : {}),
    ...(chance(0.5) ? { segment: pick("beta", "staff") } : {})
  })

  const patient = chance(0.5)
  const definition = (asset: AssetName): Omit<Definition, "effectiveFrom"> => {
    const categories = [...(chance(0.7) ? [{ id: "food", mccs: chance(0.5) ? ["5411", "5812"] : ["5411"] }] : []), ...(
      chance(0.5) ? [{ id: "travel", mccs: ["4111"] }] : []
    )]
    const ids = categories.map(({ id }) => id)
    const categoryRates = () => some(ids, 0.5).map((categoryId) => ({ categoryId, rate: from(rates) }))
    return {
      asset,
      categories,
      baseRate: from(rates),
      categoryRates: categoryRates(),
      merchantRates: [],
      tiers: some(tiers, 0.6).map((tier) => ({
        tier,
        multiplier: pick(10_000, 12_500, 12_500, 0, 100_000, 3_333),
        ...(chance(0.4) ? { baseRate: from(rates) } : {}),
        ...(chance(0.4) ? { categoryRates: categoryRates() } : {})
      })),
      campaigns: some(["summer", "winter"], 0.4).map((id) => {
        const start = Date.parse("2026-11-01T12:00:00.000Z") + below(40) * day
        return {
          id,
          startsAt: new Date(start).toISOString(),
          endsAt: new Date(start + pick(1, hour, 20 * day)).toISOString(),
          bonusRate: from(rates),
          ...(chance(0.5) ? { categoryIds: some(ids, 0.6) } : {})
        }
      }),
      caps: {
        perMonth: `${chance(0.6) ? 10n ** 30n : from(caps[asset])}`,
        categories: some(ids, 0.4).map((categoryId) => ({ categoryId, perMonth: `${from(caps[asset])}` }))
      },
      exclusions: { mccs: chance(0.2) ? ["6011"] : [], merchants: [] },
      holdingPeriodDays: patient ? pick(0, 1, 1, 14) : pick(0, 0, 0, 0, 1),
      ...(chance(0.15)
        ? { eligibility: { ...(chance(0.6) ? { countries: some(["DE", "FR"], 0.6) } : {}), ...(chance(0.4) ? { segments: ["beta"] } : {}) } }
        : {})
    }
  }

  const programs: ReadonlyArray<readonly [string, AssetName]> = [
    ["pa", "USDC"],
    ["pB", "USDC"],
    ["p-3", "USDC"],
    ["pe", "EURe"],
    ["Pe", "EURe"]
  ]
  const publish = (of: readonly [string, AssetName], version: number, now: boolean): Operation => ({
    op: "publish",
    program: of[0],
    version,
    leadMillis: now ? 5 * minute : pick(5 * minute - 1, 5 * minute, hour, 3 * day),
    roundMillis: now ? 1 : pick(1, day, day),
    definition: definition(chance(0.97) ? of[1] : "EURe")
  })

  const ago = () => pick(0, 0, 0, 0, -30_000, -minute, 1, minute, hour, hour, day, day, 2 * day, 13 * day, 33 * day)
  const letters = { authorization: "a", incremental_authorization: "i", clearing: "c", reversal: "v", refund: "r" }
  const counters = { authorization: 0, incremental_authorization: 0, clearing: 0, reversal: 0, refund: 0 }
  /** Mostly a new one, now and then one that was used. */
  const fresh = (kind: Kind): string =>
    `${letters[kind]}${chance(0.9) ? ++counters[kind] : 1 + below(Math.max(1, counters[kind]))}`
  /** One of the latest, or one that comes later. */
  const near = (kind: "authorization" | "clearing"): string =>
    `${letters[kind]}${Math.max(1, counters[kind] + 1 - below(kind === "clearing" ? 6 : 3) + (chance(0.15) ? 2 : 0))}`
  const main = chance(0.7) ? "USD" : "EUR"
  const asset: AssetName = main === "USD" ? "USDC" : "EURe"
  const unit = main === "USD" ? 10_000n : 10n ** 16n
  const owner = pick("u1", "u2")
  const one = chance(0.4)
  /** Hardly anything but clearings, claims and refunds: much is owed and recovered. */
  const storm = chance(0.4)
  const spender = (): string => one && chance(0.9) ? owner : pick("u1", "u1", "u1", "u2", "u2", "u3")
  const spend = (): Operation => {
    const kind: Kind = storm && chance(0.8) ? pick<Kind>("clearing", "clearing", "refund") : pick<Kind>(
      "authorization", "authorization", "incremental_authorization", "clearing", "clearing", "clearing", "clearing",
      "clearing", "reversal", "refund", "refund", "refund", "refund"
    )
    const original = kind === "refund"
      ? near("clearing")
      : kind === "authorization" || (kind === "clearing" && chance(0.7))
      ? undefined
      : near("authorization")
    return {
      op: "spend",
      user: chance(0.01) ? "ghost" : spender(),
      kind,
      transaction: fresh(kind),
      currency: chance(0.88) ? main : pick("USD", "EUR", "JPY"),
      cents: from(cents),
      mcc: from(mccs),
      agoMillis: chance(0.01) ? -minute - 1 : ago(),
      ...(original === undefined ? {} : { original }),
      later: chance(0.15)
    }
  }

  let referenced = 0
  const movement = (op: "deposit" | "withdraw" | "claim"): Operation => ({
    op,
    asset: chance(0.85) ? asset : pick("USDC", "EURe"),
    user: chance(0.02) ? "ghost" : spender(),
    reference: chance(0.95) ? `ref${++referenced}` : `ref${below(referenced + 1)}`,
    amount: storm && chance(0.5) ? "first" : chance(0.15) ? pick<Sum>("first-1", "first+1", 0n) : pick<Sum>("first", "first", "first", "half", "half", unit * 10n, unit * 300n, 1n)
  })

  /** A purchase that is paid and then goes back, and one that pays for it. */
  const regret = (): ReadonlyArray<Operation> => {
    const of = { op: "spend" as const, user: owner, currency: main, mcc: from(mccs), agoMillis: 0, later: false }
    const bought = fresh("clearing")
    return [
      { ...of, kind: "clearing", transaction: bought, cents: 12_345n },
      { op: "clock", to: pick(0, day, 14 * day) },
      { op: "deposit", asset, user: "", reference: `ref${++referenced}`, amount: "first" },
      { op: "claim", asset, user: owner, reference: `ref${++referenced}`, amount: "first" },
      { ...of, kind: "refund", transaction: fresh("refund"), cents: from(cents), original: bought, later: chance(0.5) },
      ...(chance(0.7) ? [{ ...of, kind: "clearing" as const, transaction: fresh("clearing"), cents: from(cents), later: chance(0.5) }] : []),
      { op: "clock", to: pick<"claimable" | number>("claimable", 14 * day) }
    ]
  }

  const step = (): ReadonlyArray<Operation> => chance(storm ? 0.08 : 0.02) ? regret() : [next()]
  const next = (): Operation => {
    if (storm && chance(0.3)) return movement(chance(0.75) ? "claim" : "deposit")
    const dice = below(100)
    if (dice < 58) return spend()
    if (dice < 61) return { op: "again", pick: below(1_000) }
    if (dice < 69) return { op: "clock", to: pick<"claimable" | "before" | number>("claimable", "claimable", "before", 1, minute, hour, day, 14 * day, 31 * day) }
    if (dice < 76) return movement("deposit")
    if (dice < 78) return movement("withdraw")
    if (dice < 90) return movement("claim")
    if (dice < 93) return { op: "put", user: from(users), attributes: attributes() }
    if (dice < 96) return publish(from(programs), 1 + below(6), false)
    return { op: "worker" }
  }

  const start: Array<Operation> = [
    { op: "put", user: "u1", attributes: attributes() },
    { op: "put", user: "u2", attributes: attributes() },
    ...(chance(0.6) ? [{ op: "put" as const, user: "u3", attributes: attributes() }] : []),
    ...some(programs, 0.6).map((one) => publish(one, 2, true)),
    { op: "clock", to: 10 * minute },
    ...(chance(0.5) ? [{ op: "deposit" as const, asset, user: "", reference: "start", amount: unit * 500n }] : [])
  ]
  const rest = Array.from({ length }, step).flat()
  // reads settle what is due, so some operations go without
  const checks = chance(0.7) ? 0.7 : 0.2
  return [...start, ...rest.flatMap((operation) => chance(checks) ? [operation, { op: "check" as const }] : [operation]), {
    op: "check"
  }]
}
