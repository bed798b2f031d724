import { Schema } from "effect"
import { Amount, Asset } from "./Money.ts"
import { ProgramDefinition } from "./Program.ts"
import { Timestamp } from "./Time.ts"

/** Purchases that one simulation evaluates, and milliseconds that it may take, at most (decisions, section 9). */
export const maxSimulatedTransactions = 1_000_000
export const maxSimulationMillis = 60_000

/** Entries of a simulation's list, at most: tiers are the integrator's own words, and may be as many as users. */
export const maxSimulationKeys = 10_000

/** A candidate, and the purchases that it is tried on: `from ≤ P < to`. */
export const SimulationRequest = Schema.Struct({
  definition: ProgramDefinition,
  from: Timestamp,
  to: Timestamp
}).check(
  Schema.makeFilter(({ from, to }) => from < to || { path: ["to"], issue: "expected a timestamp after from" })
).annotate({
  identifier: "SimulationRequest",
  expected: "an object",
  description: "A candidate version, and the purchase times that it is tried on: from `from` up to, and without, `to`."
})
export type SimulationRequest = typeof SimulationRequest.Type

/** A part of a simulation's sums. `""` as a key: outside every category, or no tier. */
const Part = Schema.Struct({ key: Schema.String, paid: Amount, wouldPay: Amount })

/**
 * What a candidate would have paid against what was paid, net of the same refunds, in smallest units (decisions,
 * section 9 and record 0009). Lists are by key in order of code points, without keys whose both sides are zero; the
 * sums of each list are `paid` and `wouldPay`.
 */
export const Simulation = Schema.Struct({
  from: Timestamp,
  to: Timestamp,
  asset: Asset,
  /** Cleared purchases in the asset's currency, also those that earn nothing. */
  transactions: Schema.Int,
  /** Users who made them. */
  users: Schema.Int,
  paid: Amount,
  wouldPay: Amount,
  /** How much more the candidate would pay without its caps. */
  cappedAway: Amount,
  /** Users who would have got more, and less. */
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
  description: "What the candidate would have paid (`wouldPay`) against what was paid, net of refunds, in smallest units of `asset`. `wouldPay + cappedAway` is what it would pay without caps. `gaining` and `losing` count users. Lists leave out keys without money; the key \"\" stands for no category, and for no tier."
})
export type Simulation = typeof Simulation.Type

/** 422: more purchases than a simulation evaluates, or more time than it may take. */
export class SimulationTooLarge extends Schema.TaggedError<SimulationTooLarge>()("SimulationTooLarge", {
  message: Schema.String
}, { httpApiStatus: 422 }) {}
