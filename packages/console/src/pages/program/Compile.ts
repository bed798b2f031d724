import type { Asset } from "@card-rewards/domain/Money"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { Result, Schema, SchemaIssue, Struct } from "effect"
import { parentOf, setAt, valueAt } from "./BodyPaths.ts"
import type { Draft, Texts } from "./Draft.ts"
import { type FieldDeclaration, rows, type RowSection, single, tierRate } from "./Sections.ts"

/** Problems by the field that they belong to; those of "" belong to the version as a whole. */
export type Problems = ReadonlyMap<string, ReadonlyArray<string>>

/** A draft as the API takes it, and the form's field for each path of the body. */
export interface Compiled {
  readonly programId: string
  readonly version: number
  readonly body: unknown
  readonly fields: ReadonlyMap<string, string>
  /** Fields whose text cannot be written as a value. */
  readonly problems: Problems
}

/** Writes a draft as a request body, and records which field each part of it comes from. */
export const compile = (draft: Draft): Compiled => {
  const body = emptyBody(draft.asset)
  const fields = new Map([["asset", "asset"]])
  const problems = new Map<string, ReadonlyArray<string>>()

  const write = (field: string, path: string, { format, optional = false }: FieldDeclaration, text: string) => {
    fields.set(path, field)
    const value = format.parse(text, draft.asset)
    if (optional && text.trim() === "") return
    if (value === undefined) problems.set(field, [format.expected(draft.asset)])
    setAt(body, path, value)
  }
  /** Adds an entry for a category to a list, which has none for a category whose field is empty. */
  const writeListed = (field: string, list: string, declaration: FieldDeclaration, place: number, text: string) => {
    if (text.trim() === "") return
    const present = valueAt(body, list)
    const path = `${list}[${Array.isArray(present) ? present.length : 0}]`
    fields.set(path, field).set(`${path}.categoryId`, `categories.${place}.id`)
    setAt(body, `${path}.categoryId`, draft.categories[place]?.id)
    write(field, `${path}.${declaration.path}`, declaration, text)
  }
  const writeRows = <Name extends string>(
    section: RowSection,
    declarations: Readonly<Record<Name, FieldDeclaration>>,
    texts: ReadonlyArray<Texts<Name>>
  ) => {
    for (const [index, row] of texts.entries()) {
      for (const name of Struct.keys(declarations)) {
        const field = `${section}.${index}.${name}`
        const declaration: FieldDeclaration = declarations[name]
        if (declaration.listByCategory === undefined) {
          write(field, `${section}[${index}].${declaration.path}`, declaration, row[name])
        } else writeListed(field, declaration.listByCategory, declaration, index, row[name])
      }
    }
  }

  for (const name of Struct.keys(single)) write(name, single[name].path, single[name], draft[name])
  writeRows("categories", rows.categories, draft.categories)
  writeRows("tiers", rows.tiers, draft.tiers)
  for (const [index, { rates }] of draft.tiers.entries()) {
    for (const place of draft.categories.keys()) {
      const list = `tiers[${index}].categoryRates`
      writeListed(`tiers.${index}.rates.${place}`, list, tierRate(place), place, rates[place] ?? "")
    }
  }
  writeRows("campaigns", rows.campaigns, draft.campaigns)
  // these two are in the request's address
  const { programId: _programId, version: _version, ...definition } = body
  return { programId: draft.programId, version: Number(draft.version), body: definition, fields, problems }
}

/** What a definition has without any field. */
const emptyBody = (asset: Asset): Record<string, unknown> => ({
  asset,
  categories: [],
  categoryRates: [],
  merchantRates: [],
  tiers: [],
  campaigns: [],
  caps: { categories: [] },
  exclusions: { merchants: [] }
})

/** Decodes the body as the API does; fails with the problems of the fields. */
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

/** Assigns each `path: reason` of the service to the field with the longest matching prefix of the path. */
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
  for (let rest = path; rest !== ""; rest = parentOf(rest)) {
    const field = fields.get(rest)
    if (field !== undefined) return field
  }
  return ""
}

/** The word that a problem is about, where one field holds a list of them. */
const detailOf = ({ body, fields }: Compiled, path: string): string => {
  const value = fields.has(path) ? undefined : valueAt(body, path)
  return typeof value === "string" ? `${value}: ` : ""
}
