import type { FieldProps } from "../../ui/Field.tsx"
import {
  days,
  factor,
  type Format,
  money,
  percentage,
  phrases,
  programId,
  time,
  versionNumber,
  word,
  words
} from "./Formats.ts"

/**
 * A field of the form. The form's inputs, a draft's contents, the body that is published, and the field that a problem
 * is shown beside all follow from this declaration.
 */
export interface FieldDeclaration {
  readonly label: string
  readonly format: Format
  /** The value's path in the definition; for a field of a row, its path in the row's entry. */
  readonly path: string
  /**
   * For a field of a category's row whose value is not part of the category: the list with an entry for the category's
   * id and the value.
   */
  readonly listByCategory?: "categoryRates" | "caps.categories"
  /** Whether an empty field leaves the value out of the definition. */
  readonly optional?: boolean
  /** What an empty draft or a new row has. */
  readonly initial: string
  readonly input?: Pick<FieldProps, "hint" | "mono" | "placeholder">
}

const declare = <const Name extends string>(fields: Readonly<Record<Name, FieldDeclaration>>) => fields

/** Program id and version are part of the request's address, not of the definition. */
export const version = declare({
  programId: { label: "Program id", format: programId, path: "programId", initial: "", input: { mono: true } },
  version: {
    label: "Version",
    format: versionNumber,
    path: "version",
    initial: "1",
    input: { hint: "Your own number." }
  },
  holdingPeriodDays: { label: "Holding period", format: days, path: "holdingPeriodDays", initial: "14" }
})

export const terms = declare({
  effectiveFrom: {
    label: "Effective from (UTC)",
    format: time,
    path: "effectiveFrom",
    initial: "",
    input: { hint: "At least five minutes from now." }
  },
  baseRate: { label: "Base rate", format: percentage, path: "baseRate", initial: "1" },
  perMonth: { label: "Cap per user and month", format: money, path: "caps.perMonth", initial: "50" }
})

export const limits = declare({
  excludedMccs: {
    label: "Excluded MCCs",
    format: words,
    path: "exclusions.mccs",
    initial: "",
    input: { mono: true, placeholder: "6011 6012" }
  },
  countries: {
    label: "Countries",
    format: words,
    path: "eligibility.countries",
    optional: true,
    initial: "",
    input: { mono: true, placeholder: "DE AT", hint: "Of the user, ISO 3166-1." }
  },
  segments: {
    label: "Segments",
    format: phrases,
    path: "eligibility.segments",
    optional: true,
    initial: "",
    input: { placeholder: "beta, staff", hint: "Separated by commas; in quotes where one has a comma." }
  }
})

/** All fields that a draft has once. */
export const single = { ...version, ...terms, ...limits }

const id = (placeholder: string): FieldDeclaration => ({
  label: "Id",
  format: word,
  path: "id",
  initial: "",
  input: { mono: true, placeholder }
})

/** A rate for one category, in the category's row and in a tier's row. */
const categoryRate: FieldDeclaration = {
  label: "Rate",
  format: percentage,
  path: "rate",
  listByCategory: "categoryRates",
  optional: true,
  initial: ""
}

/** The sections with a row for each entry of a list of the definition. */
export const rows = {
  categories: declare({
    id: id("groceries"),
    mccs: { label: "MCCs", format: words, path: "mccs", initial: "", input: { mono: true, placeholder: "5411 5499" } },
    rate: categoryRate,
    cap: {
      label: "Cap per month",
      format: money,
      path: "perMonth",
      listByCategory: "caps.categories",
      optional: true,
      initial: ""
    }
  }),
  tiers: declare({
    tier: { label: "Tier", format: word, path: "tier", initial: "", input: { placeholder: "gold" } },
    multiplier: { label: "Multiplier", format: factor, path: "multiplier", initial: "1" },
    baseRate: { label: "Base rate", format: percentage, path: "baseRate", optional: true, initial: "" }
  }),
  campaigns: declare({
    id: id("summer"),
    startsAt: { label: "Starts (UTC)", format: time, path: "startsAt", initial: "" },
    endsAt: { label: "Ends (UTC)", format: time, path: "endsAt", initial: "" },
    bonusRate: { label: "Bonus", format: percentage, path: "bonusRate", initial: "1" },
    categoryIds: {
      label: "Categories",
      format: phrases,
      path: "categoryIds",
      optional: true,
      initial: "",
      input: { mono: true, placeholder: "all" }
    }
  })
}

/** A tier's rate for the category with this index. */
export const tierRate = (place: number): FieldDeclaration => ({
  ...categoryRate,
  label: `Rate of category ${place + 1}`
})

/** How the sections of rows present themselves; `entry` is what one row is called. */
export const presentations = {
  categories: {
    title: "Categories",
    hint: "Merchants by category code. A rate left empty is the base rate; a cap left empty is none.",
    entry: "category"
  },
  tiers: { title: "Tiers", hint: "A tier multiplies every rate, and may have rates of its own.", entry: "tier" },
  campaigns: {
    title: "Campaigns",
    hint: "A bonus on top of the rate for a time; without categories, on everything.",
    entry: "campaign"
  }
} as const

export type RowSection = keyof typeof rows

/** A field's name in the list of problems, such as `Tier 2, Multiplier`. */
export const fieldName = (field: string): string => {
  const [section = "", index, name = "", place] = field.split(".")
  if (index === undefined) return isKey(single, section) ? single[section].label : section
  if (!isKey(rows, section)) return field
  const fields: Readonly<Record<string, FieldDeclaration>> = rows[section]
  const { label } = place === undefined ? fields[name] ?? { label: name } : tierRate(Number(place))
  const { entry } = presentations[section]
  return `${entry.charAt(0).toUpperCase()}${entry.slice(1)} ${Number(index) + 1}, ${label}`
}

const isKey = <A extends object>(record: A, key: PropertyKey): key is keyof A => Object.hasOwn(record, key)
