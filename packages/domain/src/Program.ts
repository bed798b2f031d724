import { Schema } from "effect"
import { ProgramId, text } from "./Ids.ts"
import { Amount, Asset } from "./Money.ts"
import { Mcc } from "./SpendEvent.ts"
import { Timestamp } from "./Time.ts"

/** The greatest rate, in basis points (decisions, section 4). */
export const maxRate = 10_000

/** The shortest time between the publication of a version and its `effectiveFrom` (contract, section 8). */
export const minimumLeadMillis = 5 * 60_000

const name = text(1, 128)

/** The rate of a category, in basis points. */
export const CategoryRate = Schema.Struct({ categoryId: name, rate: Schema.Int })

/** A category of merchants. An MCC is in one category at most. */
export const Category = Schema.Struct({ id: name, mccs: Schema.Array(Mcc) })

/** The rates of a tier's users; a multiplier of 10000 is 1×. */
export const Tier = Schema.Struct({
  tier: name,
  multiplier: Schema.Int,
  baseRate: Schema.optionalKey(Schema.Int),
  categoryRates: Schema.optionalKey(Schema.Array(CategoryRate))
})

/** A bonus on purchases at a time P with `startsAt ≤ P < endsAt`, in these categories or, without any, in all. */
export const Campaign = Schema.Struct({
  id: name,
  startsAt: Timestamp,
  endsAt: Timestamp,
  bonusRate: Schema.Int,
  categoryIds: Schema.optionalKey(Schema.Array(name))
})

/** The most that a user earns in a category and month. */
export const CategoryCap = Schema.Struct({ categoryId: name, perMonth: Amount })

/** The most that a user earns in a month: in all, and by category. */
export const Caps = Schema.Struct({ perMonth: Amount, categories: Schema.Array(CategoryCap) })

/** Merchants whose purchases earn nothing. */
export const Exclusions = Schema.Struct({ mccs: Schema.Array(Mcc), merchants: Schema.Array(Schema.Json) })

/** The users who earn rewards. An empty or absent list is no restriction. */
export const Eligibility = Schema.Struct({
  countries: Schema.optionalKey(Schema.Array(text(0, 128))),
  segments: Schema.optionalKey(Schema.Array(name))
})

const isNotNull = Schema.makeFilter<Schema.Json>((value) => value !== null, {
  expected: "a value other than null",
  toJsonSchema: () => ({ not: { type: "null" } })
})

/**
 * The definition of a program version (contract, section 2.6; decisions, section 4). Rates are basis points, a
 * multiplier of 10000 is 1×, caps are smallest units. This schema is the shape alone: Program/Problems.ts has the other
 * rules and finds unknown keys.
 */
export const ProgramDefinition = Schema.Struct({
  asset: Asset,
  effectiveFrom: Timestamp,
  categories: Schema.Array(Category),
  baseRate: Schema.Int,
  categoryRates: Schema.Array(CategoryRate),
  merchantRates: Schema.Array(Schema.Json),
  tiers: Schema.Array(Tier),
  campaigns: Schema.Array(Campaign),
  caps: Caps,
  exclusions: Exclusions,
  holdingPeriodDays: Schema.Int,
  eligibility: Schema.optionalKey(Eligibility),
  referralBonus: Schema.optionalKey(Schema.Json.check(isNotNull))
}).annotate({
  identifier: "ProgramDefinition",
  expected: "an object",
  description: "A program version. Rates are basis points (100 is 1%), a multiplier of 10000 is 1×, caps are " +
    "smallest units."
})
export type ProgramDefinition = typeof ProgramDefinition.Type

/** The greatest number of a version. */
export const maxVersionNumber = 2_147_483_647

/** The number of a version, chosen by the integrator. Gaps are allowed. */
export const VersionNumber = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: maxVersionNumber }, { expected: `an integer from 1 to ${maxVersionNumber}` })
)

/** Response of a publication. */
export const ProgramVersionPublished = Schema.Struct({
  programId: ProgramId,
  version: VersionNumber,
  effectiveFrom: Timestamp,
  publishedAt: Timestamp,
  duplicate: Schema.Boolean
}).annotate({
  identifier: "ProgramVersionPublished",
  expected: "an object",
  description: "The published version; `duplicate` is true when it was already published."
})
export type ProgramVersionPublished = typeof ProgramVersionPublished.Type

/** A version in the list of programs. */
export const ProgramVersionSummary = Schema.Struct({
  version: VersionNumber,
  effectiveFrom: Timestamp,
  publishedAt: Timestamp
}).annotate({
  identifier: "ProgramVersionSummary",
  expected: "an object",
  description: "A version without its definition."
})

/** A program in the list of programs, with its versions ascending. */
export const ProgramSummary = Schema.Struct({
  programId: ProgramId,
  asset: Asset,
  versions: Schema.Array(ProgramVersionSummary)
}).annotate({
  identifier: "ProgramSummary",
  expected: "an object",
  description: "A program; versions ascending."
})
export type ProgramSummary = typeof ProgramSummary.Type

/** A program with its published versions. */
export const Program = Schema.Struct({
  programId: ProgramId,
  asset: Asset,
  versions: Schema.Array(Schema.Struct({ ...ProgramVersionSummary.fields, definition: ProgramDefinition }))
}).annotate({
  identifier: "Program",
  expected: "an object",
  description: "A program with its versions as published, ascending."
})
export type Program = typeof Program.Type

/** 422: the version violates rules; `problems` lists all of them as `path: reason`, up to 500 of one kind. */
export class ProgramRefused extends Schema.TaggedError<ProgramRefused>()("ProgramRefused", {
  message: Schema.String,
  programId: Schema.String,
  problems: Schema.Array(Schema.String)
}, { httpApiStatus: 422 }) {}

/** 409: a version with this number has other content. */
export class ProgramVersionConflict extends Schema.TaggedError<ProgramVersionConflict>()("ProgramVersionConflict", {
  message: Schema.String,
  programId: Schema.String,
  version: Schema.Int
}, { httpApiStatus: 409 }) {}
