import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { compile, type ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { Schema } from "effect"

const times = <A>(count: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => make(index))
const mccs = times(10_000, (index) => `${index}`.padStart(4, "0"))
const rates = (count: number) => times(count, (index) => ({ categoryId: `c${index}`, rate: index }))
const campaign = { startsAt: "2026-12-01T00:00:00.000Z", endsAt: "2026-12-02T00:00:00.000Z", bonusRate: 1 }
const categories = times(200, (index) => ({ id: `c${index}`, mccs: mccs.filter((_, mcc) => mcc % 200 === index) }))
const emptyCategories = categories.map(({ id }) => ({ id, mccs: [] }))
const categoryIds = categories.map(({ id }) => id)

/** A definition whose lists are full of ids of 128 characters. */
const longIds = (prefix: string, fill: string, count: number) => {
  const length = fill.length === 1 ? 128 : 250
  const id = (kind: string, index: number) => `${prefix}${kind}${index + 100}`.padEnd(length, fill)
  const categoryRates = [{ categoryId: id("c", 0), rate: 1 }]
  return {
    categories: times(count, (index) => ({ id: id("c", index), mccs: categories[index]?.mccs ?? [] })),
    tiers: times(50, (index) => ({ tier: id("t", index), multiplier: 1, categoryRates })),
    campaigns: times(count, (index) => ({ ...campaign, id: id("k", index), categoryIds: [] })),
    eligibility: { segments: times(count, (index) => id("s", index)) }
  }
}

/** Definitions within the limits of every list, most of them as large as a request may be. */
export const definitions: ReadonlyArray<readonly [string, object, maxBytes: number]> = [
  ["plain", {}, 2_048],
  ["all MCCs", { categories, exclusions: { mccs, merchants: [] } }, 65_536],
  ["rates of tiers", {
    categories: emptyCategories,
    tiers: times(38, (index) => ({ tier: `t${index}`, multiplier: 1, categoryRates: rates(200) }))
  }, 65_536],
  ["categories of campaigns", {
    categories: emptyCategories,
    campaigns: times(160, (index) => ({ ...campaign, id: `k${index}`, categoryIds }))
  }, 65_536],
  ["caps", {
    categories: emptyCategories,
    caps: { perMonth: "1", categories: emptyCategories.map(({ id }) => ({ categoryId: id, perMonth: "9".repeat(78) })) }
  }, 65_536],
  ["long ids", longIds("", "x", 200), 200_000],
  ["long ids of two bytes a character", longIds("Δ", "x", 200), 330 * 1_024],
  ["long ids of four bytes a character", longIds("", "😀", 100), 330 * 1_024]
]

/** A definition's body as an integrator sends it. */
export const bodyOf = (changes: object): string =>
  JSON.stringify({ ...plainProgram, effectiveFrom: campaign.startsAt, ...changes })

/** The compiled version of a body, as the service keeps it. */
export const compiled = (body: string): ProgramVersion =>
  compile("p", 1, Schema.decodeUnknownSync(ProgramDefinition)(JSON.parse(body)))
