import { Schema } from "effect"
import { Amount, Asset } from "./Money.ts"
import { ProgramDefinition } from "./Program.ts"
import { Timestamp } from "./Time.ts"

/**
 * The most purchases that one simulation evaluates, which is also the most refunds of them, and the most milliseconds
 * that it takes (decisions, section 9).
 */
export const maxSimulatedTransactions = 1_000_000
export const maxSimulationMillis = 60_000

/** How long a simulation waits at most for those of others to end, in milliseconds. */
export const maxSimulationWaitMillis = 30_000

/** The most entries of a simulation's list: there may be as many months, or tiers, as purchases. */
export const maxSimulationKeys = 10_000

/** A candidate, and the time P of the purchases on which it is evaluated: `from ≤ P < to`. */
export const SimulationRequest = Schema.Struct({
  definition: ProgramDefinition,
  from: Timestamp,
  to: Timestamp
}).check(
  Schema.makeFilter(({ from, to }) => from < to || { path: ["to"], issue: "expected a timestamp after from" })
).annotate({
  identifier: "SimulationRequest",
  expected: "an object",
  description: "A candidate version, and the times of the purchases on which it is evaluated: from `from`, and " +
    "before `to`."
})
export type SimulationRequest = typeof SimulationRequest.Type

/** A part of a simulation's sums. The key `""` is for purchases outside every category, or for users without a tier. */
const Part = Schema.Struct({ key: Schema.String, paid: Amount, wouldPay: Amount })

/**
 * What a candidate would have paid, and what was paid, both net of the same refunds, in smallest units (decisions,
 * section 9 and record 0009). Lists are ordered by code points of the key and omit keys with two zeros. The sums of
 * each list are `paid` and `wouldPay`.
 */
export const Simulation = Schema.Struct({
  from: Timestamp,
  to: Timestamp,
  asset: Asset,
  /** Cleared purchases in the asset's currency, including those that earn nothing. */
  transactions: Schema.Int,
  /** The users of these purchases. */
  users: Schema.Int,
  paid: Amount,
  wouldPay: Amount,
  /** How much more the candidate would pay without its caps. */
  cappedAway: Amount,
  /** The numbers of users to whom the candidate would have paid more, and less. */
  gaining: Schema.Int,
  losing: Schema.Int,
  /** By month of the purchase, as `2026-11`. */
  byMonth: Schema.Array(Part),
  /** `paid` by the category recorded on the reward, `wouldPay` by the candidate's. */
  byCategory: Schema.Array(Part),
  /** By the user's tier at the purchase. */
  byTier: Schema.Array(Part)
}).annotate({
  identifier: "Simulation",
  expected: "an object",
  description: "What the candidate would have paid (`wouldPay`) and what was paid, net of refunds, in smallest units " +
    "of `asset`. `wouldPay + cappedAway` is what it would pay without caps. `gaining` and `losing` count users. " +
    "Lists omit keys without money; the key \"\" stands for no category, and for no tier."
})
export type Simulation = typeof Simulation.Type

/** 422: there are more purchases, refunds or keys than a simulation may have, or it takes more time than it may. */
export class SimulationTooLarge extends Schema.TaggedError<SimulationTooLarge>()("SimulationTooLarge", {
  message: Schema.String
}, { httpApiStatus: 422 }) {}
