/** JSON schemas in the notation of TypeScript, which is far shorter. */

/** The parts of a schema that the notation shows. */
interface JsonSchema {
  readonly $ref?: string
  readonly type?: string
  readonly format?: string
  readonly pattern?: string
  readonly enum?: ReadonlyArray<unknown>
  readonly oneOf?: ReadonlyArray<JsonSchema>
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
  readonly minLength?: number
  readonly maxLength?: number
}

/**
 * `{userId: string[1..128], tier?: string[1..128], at: timestamp}`: `?` marks what may be absent, the brackets of a
 * string have the limits of its length, `digits` is a string of decimal digits, `date` one such as `2030-01-01`.
 */
export const typeOf = (schema: JsonSchema): string => {
  const { $ref, anyOf, enum: values, items, oneOf, properties, type } = schema
  if ($ref !== undefined) return $ref.slice($ref.lastIndexOf("/") + 1)
  const members = oneOf ?? anyOf
  if (members !== undefined) return [...new Set(members.map(typeOf))].join(" | ")
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(" | ")
  if (type === "array") return items === undefined ? "[]" : listOf(typeOf(items))
  if (type === "string") return stringType(schema)
  if (type !== "object" || properties === undefined) return type ?? "unknown"
  const fields = Object.entries(properties).map(([name, inner]) =>
    `${name}${schema.required?.includes(name) === true ? "" : "?"}: ${typeOf(inner)}`
  )
  return `{${fields.join(", ")}}`
}

const listOf = (item: string): string => item.includes(" | ") ? `(${item})[]` : `${item}[]`

const stringType = ({ format, maxLength, minLength = 0, pattern = "" }: JsonSchema): string => {
  if (format === "date-time") return "timestamp"
  const besideDigits = pattern.replace(/\[[01]-9\]/g, "")
  if (/^\^[()0-9{},|?]*\$$/.test(besideDigits)) return "digits"
  if (besideDigits.startsWith("^{4}-{2}-{2}")) return "date"
  return maxLength === undefined ? "string" : `string[${minLength}..${maxLength}]`
}
