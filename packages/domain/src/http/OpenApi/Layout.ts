/** How the code of the examples is laid out. */
import { withVariables } from "./Requests.ts"

/** Code: of a value, of the elements of a list, or of the fields of an object. */
export type Code = string | ReadonlyArray<Code> | { readonly [field: string]: Code }

/** How objects are written: the name of a field, and the space within braces. */
export interface Notation {
  readonly field: (name: string) => string
  readonly padding: "" | " "
}

const json: Notation = { field: (name) => JSON.stringify(name), padding: "" }

/** Writes code with each list and object in one line where that has at most 88 characters. */
export const layOut = (code: Code, notation: Notation, indent = "", before = 0): string => {
  if (typeof code === "string") return code
  const [open, close, pad] = isList(code) ? ["[", "]", ""] as const : ["{", "}", notation.padding] as const
  const parts = isList(code)
    ? code.map((inner) => ["", inner] as const)
    : Object.entries(code).map(([name, inner]) => [`${notation.field(name)}: `, inner] as const)
  if (parts.length === 0) return `${open}${close}`
  const flat = parts.map(([name, inner]) => `${name}${layOut(inner, notation, "", -Infinity)}`).join(", ")
  const line = `${open}${pad}${flat}${pad}${close}`
  if (indent.length + before + line.length <= 88) return line
  const deeper = `${indent}  `
  const lines = parts.map(([name, inner]) => `${deeper}${name}${layOut(inner, notation, deeper, name.length)}`)
  return `${open}\n${lines.join(",\n")}\n${indent}${close}`
}

const isList = (code: Code): code is ReadonlyArray<Code> => Array.isArray(code)

/** A body as JSON, with its variables. */
export const bodyAsJson = (body: unknown): string => layOut(jsonCode("", body), json)

/** The same in one line. */
export const bodyAsLine = (body: unknown): string => layOut(jsonCode("", body), json, "", -Infinity)

const jsonCode = (field: string, value: unknown): Code => {
  if (Array.isArray(value)) return value.map((inner) => jsonCode(field, inner))
  if (typeof value === "string") return JSON.stringify(withVariables(field, value))
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, jsonCode(name, inner)]))
}
