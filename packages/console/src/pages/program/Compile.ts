import { ProgramId } from "@card-rewards/domain/Ids"
import { ProgramDefinition, VersionNumber } from "@card-rewards/domain/Program"
import { Result, Schema, SchemaIssue } from "effect"
import { decimalsOf, parseDecimal, parseMoney } from "../../format/Money.ts"
import type { Draft } from "./Draft.ts"

/** Problems by the field that they belong to; those of "" belong to the version as a whole. */
export type Problems = ReadonlyMap<string, ReadonlyArray<string>>

/** A draft as the API takes it, and which field of the form each of its paths comes from. */
export interface Compiled {
  readonly programId: string
  readonly version: number
  readonly body: unknown
  readonly fields: ReadonlyMap<string, string>
  /** What cannot even be written as a body. */
  readonly problems: Problems
}

/** Writes a draft as a request body, remembering where everything came from. */
export const compile = (draft: Draft): Compiled => {
  const problems = new Map<string, Array<string>>()
  const fields = new Map<string, string>()
  const complain = (field: string, problem: string) =>
    void problems.set(field, [...(problems.get(field) ?? []), problem])
  const from = (path: string, field: string) => void fields.set(path, field)

  const decimal = (field: string, path: string, text: string, decimals: number, expected: string): number => {
    from(path, field)
    const value = /^-?\d+$/.test(text.trim())
      ? BigInt(text.trim()) * 10n ** BigInt(decimals)
      : parseDecimal(text, decimals)
    if (value === undefined) complain(field, expected)
    return Number(value ?? 0n)
  }
  const percent = (field: string, path: string, text: string) =>
    decimal(field, path, text, 2, "a percentage with at most two decimals, as 1.25")
  const money = (field: string, path: string, text: string): string => {
    from(path, field)
    const value = parseMoney(text, draft.asset)
    if (value === undefined)
      complain(field, `an amount of ${draft.asset} with at most ${decimalsOf(draft.asset)} decimals`)
    return String(value ?? 0n)
  }
  const words = (field: string, path: string, text: string, separator = /[\s,]+/): ReadonlyArray<string> => {
    from(path, field)
    return text
      .split(separator)
      .map((word) => word.trim())
      .filter((word) => word !== "")
  }
  const time = (field: string, path: string, text: string): string => {
    from(path, field)
    if (text === "") complain(field, "a time is needed")
    return `${text.length === 16 ? `${text}:00` : text}Z`
  }

  const categories = draft.categories.map((category, index) => {
    from(`categories[${index}].id`, `categories.${index}.id`)
    return {
      id: category.id.trim(),
      mccs: words(`categories.${index}.mccs`, `categories[${index}].mccs`, category.mccs)
    }
  })
  /** A list without the rows that say nothing; its places differ from the form's. */
  const perCategory = <A>(
    path: string,
    values: ReadonlyArray<string>,
    field: (place: number) => string,
    entry: (value: string, place: number, path: string) => A
  ) =>
    values
      .flatMap((value, place) => (value.trim() === "" ? [] : [{ value, place }]))
      .map(({ place, value }, index) => {
        from(`${path}[${index}]`, field(place))
        from(`${path}[${index}].categoryId`, `categories.${place}.id`)
        return { categoryId: categories[place]?.id ?? "", ...entry(value, place, `${path}[${index}]`) }
      })
  const rates = (path: string, values: ReadonlyArray<string>, field: (place: number) => string) =>
    perCategory(path, values, field, (value, place, at) => ({ rate: percent(field(place), `${at}.rate`, value) }))

  const tiers = draft.tiers.map((tier, index) => {
    const at = `tiers[${index}]`
    from(`${at}.tier`, `tiers.${index}.tier`)
    const own = rates(
      `${at}.categoryRates`,
      tier.rates.slice(0, categories.length),
      (place) => `tiers.${index}.rates.${place}`
    )
    return {
      tier: tier.tier.trim(),
      multiplier: decimal(
        `tiers.${index}.multiplier`,
        `${at}.multiplier`,
        tier.multiplier,
        4,
        "a factor with at most four decimals, as 1.5"
      ),
      ...(tier.baseRate.trim() === ""
        ? {}
        : { baseRate: percent(`tiers.${index}.baseRate`, `${at}.baseRate`, tier.baseRate) }),
      ...(own.length === 0 ? {} : { categoryRates: own })
    }
  })
  const campaigns = draft.campaigns.map((campaign, index) => {
    const at = `campaigns[${index}]`
    from(`${at}.id`, `campaigns.${index}.id`)
    const ids = words(`campaigns.${index}.categoryIds`, `${at}.categoryIds`, campaign.categoryIds)
    return {
      id: campaign.id.trim(),
      startsAt: time(`campaigns.${index}.startsAt`, `${at}.startsAt`, campaign.startsAt),
      endsAt: time(`campaigns.${index}.endsAt`, `${at}.endsAt`, campaign.endsAt),
      bonusRate: percent(`campaigns.${index}.bonusRate`, `${at}.bonusRate`, campaign.bonusRate),
      ...(ids.length === 0 ? {} : { categoryIds: ids })
    }
  })
  const countries = words("countries", "eligibility.countries", draft.countries)
  const segments = words("segments", "eligibility.segments", draft.segments, /,/)
  const eligibility = {
    ...(countries.length === 0 ? {} : { countries }),
    ...(segments.length === 0 ? {} : { segments })
  }
  const body = {
    asset: draft.asset,
    effectiveFrom: time("effectiveFrom", "effectiveFrom", draft.effectiveFrom),
    categories,
    baseRate: percent("baseRate", "baseRate", draft.baseRate),
    categoryRates: rates(
      "categoryRates",
      draft.categories.map((category) => category.rate),
      (place) => `categories.${place}.rate`
    ),
    merchantRates: [],
    tiers,
    campaigns,
    caps: {
      perMonth: money("perMonth", "caps.perMonth", draft.perMonth),
      categories: perCategory(
        "caps.categories",
        draft.categories.map((category) => category.cap),
        (place) => `categories.${place}.cap`,
        (value, place, at) => ({
          perMonth: money(`categories.${place}.cap`, `${at}.perMonth`, value)
        })
      )
    },
    exclusions: { mccs: words("excludedMccs", "exclusions.mccs", draft.excludedMccs), merchants: [] },
    holdingPeriodDays: decimal(
      "holdingPeriodDays",
      "holdingPeriodDays",
      draft.holdingPeriodDays,
      0,
      "a number of days"
    ),
    ...(Object.keys(eligibility).length === 0 ? {} : { eligibility })
  }
  for (const name of ["asset", "programId", "version"]) from(name, name)
  if (!Schema.is(ProgramId)(draft.programId.trim())) complain("programId", "1 to 128 printable characters, no colon")
  const version = Number(draft.version)
  if (!Schema.is(VersionNumber)(version)) complain("version", "an integer from 1 to 2147483647")
  return { programId: draft.programId.trim(), version, body, fields, problems }
}

/** The body's shape as the API reads it: a definition, or problems of the fields. */
export const decode = (compiled: Compiled): Result.Result<ProgramDefinition, Problems> => {
  if (compiled.problems.size > 0) return Result.fail(compiled.problems)
  return Result.mapError(
    Schema.decodeUnknownResult(ProgramDefinition, { errors: "all" })(compiled.body),
    ({ issue }) => assign(compiled, format({ issue }))
  )
}

const format = ({ issue }: { readonly issue: SchemaIssue.Issue }): ReadonlyArray<string> =>
  SchemaIssue.makeFormatterStandardSchemaV1()(issue).issues.map(({ message, path = [] }) => {
    const at = path
      .map((part) => (typeof part === "object" ? part.key : part))
      .reduce<string>(
        (text, part) =>
          typeof part === "number" ? `${text}[${part}]` : text === "" ? String(part) : `${text}.${String(part)}`,
        ""
      )
    return `${at}: ${message.replace(/, (got|actual) .*/s, "")}`
  })

/** Gives each `path: reason` of the service to the field that it is about: the longest known beginning of its path. */
export const assign = (compiled: Compiled, problems: ReadonlyArray<string>): Problems => {
  const assigned = new Map<string, Array<string>>()
  for (const problem of problems) {
    const at = problem.indexOf(": ")
    const path = at < 0 ? "" : problem.slice(0, at)
    const field = fieldOf(compiled.fields, path)
    const text = field === "" ? problem : `${detailOf(compiled, path)}${problem.slice(at + 2)}`
    assigned.set(field, [...(assigned.get(field) ?? []), text])
  }
  return assigned
}

const fieldOf = (fields: ReadonlyMap<string, string>, path: string): string => {
  for (let rest = path; rest !== ""; rest = rest.replace(/(\.[^.[]+|\[\d+\]|^[^.[]+)$/, "")) {
    const field = fields.get(rest)
    if (field !== undefined) return field
  }
  return ""
}

/** Which of a list's words is meant, where one field holds them all. */
const detailOf = ({ body, fields }: Compiled, path: string): string => {
  if (fields.has(path)) return ""
  let value: unknown = body
  for (const [, name, index] of path.matchAll(/([^.[\]]+)|\[(\d+)\]/g)) {
    value = typeof value === "object" && value !== null ? Reflect.get(value, name ?? index ?? "") : undefined
  }
  return typeof value === "string" ? `${value}: ` : ""
}
