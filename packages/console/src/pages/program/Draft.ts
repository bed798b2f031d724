import type { Asset } from "@card-rewards/domain/Money"
import type { ProgramDefinition } from "@card-rewards/domain/Program"
import { Record as Records } from "effect"
import { toInputSeconds } from "../../format/Time.ts"
import { valueAt } from "./BodyPaths.ts"
import { type FieldDeclaration, rows, single, tierRate } from "./Sections.ts"

/** The texts of the fields of a section. */
export type Texts<Name extends string> = Readonly<Record<Name, string>>

type TextsOf<Fields> = Texts<Extract<keyof Fields, string>>

/** A tier of a draft; its rates are in the order of the categories. */
export type TierDraft = TextsOf<typeof rows.tiers> & { readonly rates: ReadonlyArray<string> }

/** A version as it is typed: percentages, factors and whole assets, as text. */
export interface Draft extends TextsOf<typeof single> {
  readonly asset: Asset
  readonly categories: ReadonlyArray<TextsOf<typeof rows.categories>>
  readonly tiers: ReadonlyArray<TierDraft>
  readonly campaigns: ReadonlyArray<TextsOf<typeof rows.campaigns>>
}

const initialTexts = <Name extends string>(fields: Readonly<Record<Name, FieldDeclaration>>): Texts<Name> =>
  Records.map(fields, ({ initial }) => initial)

/** What a new row of each section has. */
export const initialRows = {
  categories: initialTexts(rows.categories),
  tiers: { ...initialTexts(rows.tiers), rates: [] },
  campaigns: initialTexts(rows.campaigns)
}

/** What a first version begins with. */
export const emptyDraft = (effectiveFrom: number): Draft => ({
  ...initialTexts(single),
  asset: "USDC",
  effectiveFrom: toInputSeconds(effectiveFrom),
  categories: [],
  tiers: [],
  campaigns: []
})

/** A draft of the version after a published one. */
export const draftOf = (
  programId: string,
  version: number,
  definition: ProgramDefinition,
  effectiveFrom: number
): Draft => {
  const { asset, campaigns, categories, tiers } = definition
  const print = ({ format }: FieldDeclaration, value: unknown) => value === undefined ? "" : format.print(value, asset)
  const printListed = (field: FieldDeclaration, holder: unknown, categoryId: string) => {
    const list = valueAt(holder, field.listByCategory ?? "")
    const isOfCategory = (entry: unknown) => valueAt(entry, "categoryId") === categoryId
    const entry: unknown = Array.isArray(list) ? list.find(isOfCategory) : undefined
    return print(field, valueAt(entry, field.path))
  }
  const textsOf = <Name extends string>(fields: Readonly<Record<Name, FieldDeclaration>>, entry: unknown) =>
    Records.map(fields, (field) => print(field, valueAt(entry, field.path)))
  return {
    ...textsOf(single, definition),
    programId,
    version: String(version),
    asset,
    effectiveFrom: toInputSeconds(effectiveFrom),
    categories: categories.map((category) =>
      Records.map(rows.categories, (field: FieldDeclaration) =>
        field.listByCategory === undefined
          ? print(field, valueAt(category, field.path))
          : printListed(field, definition, category.id))
    ),
    tiers: tiers.map((tier) => ({
      ...textsOf(rows.tiers, tier),
      rates: categories.map(({ id }, place) => printListed(tierRate(place), tier, id))
    })),
    campaigns: campaigns.map((campaign) => textsOf(rows.campaigns, campaign))
  }
}
