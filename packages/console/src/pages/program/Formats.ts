import { ProgramId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { VersionNumber } from "@card-rewards/domain/Program"
import { Schema } from "effect"
import { decimalsOf, parseDecimal, parseMoney, printDecimal } from "../../format/Money.ts"
import { toInput } from "../../format/Time.ts"
import type { FieldProps } from "../../ui/Field.tsx"

/** How the text of a field is written as a value of the API, and back. */
export interface Format {
  /** The value for the request's body; undefined for a text that is none. */
  readonly parse: (text: string, asset: Asset) => unknown
  /** The text for a value of a definition. */
  readonly print: (value: unknown, asset: Asset) => string
  /** What the text must be, for the problem beside the field. */
  readonly expected: (asset: Asset) => string
  readonly input?: (asset: Asset) => Pick<FieldProps, "inputMode" | "suffix" | "type">
}

const decimal = (decimals: number, suffix: string, expected: string): Format => ({
  parse: (text) => {
    const value = /^-?\d+$/.test(text.trim())
      ? BigInt(text.trim()) * 10n ** BigInt(decimals)
      : parseDecimal(text, decimals)
    return value === undefined ? undefined : Number(value)
  },
  print: (value) => printDecimal(BigInt(String(value)), decimals),
  expected: () => expected,
  input: () => ({ suffix, inputMode: decimals === 0 ? "numeric" : "decimal" })
})

/** Basis points, typed as a percentage. */
export const percentage = decimal(2, "%", "a percentage with at most two decimals, as 1.25")

/** Ten-thousandths, typed as a factor. */
export const factor = decimal(4, "×", "a factor with at most four decimals, as 1.5")

export const days = decimal(0, "days", "a number of days")

/** Smallest units of the program's asset, typed as whole ones. */
export const money: Format = {
  parse: (text, asset) => parseMoney(text, asset)?.toString(),
  print: (value, asset) => printDecimal(BigInt(String(value)), decimalsOf(asset)),
  expected: (asset) => `an amount of ${asset} with at most ${decimalsOf(asset)} decimals`,
  input: (asset) => ({ suffix: asset, inputMode: "decimal" })
}

/** An instant in UTC; the API takes RFC 3339. */
export const time: Format = {
  parse: (text) => text === "" ? undefined : `${text.length === 16 ? `${text}:00` : text}Z`,
  print: (value) => toInput(Number(value)),
  expected: () => "a time is needed",
  input: () => ({ type: "datetime-local" })
}

/** A text as it is: spaces at its ends are part of it. */
export const word: Format = {
  parse: (text) => text,
  print: String,
  expected: () => "a text"
}

/** A list of words, separated by spaces or commas. */
export const words: Format = {
  parse: (text) => text.split(/[\s,]+/).filter((entry) => entry !== ""),
  print: (value) => Array.isArray(value) ? value.join(" ") : "",
  expected: () => "a list"
}

/** The list without entries, which means something else than no list. */
const emptyList = `""`

/** A list of texts, separated by commas; one with a comma, a quote, or spaces at its ends is in quotes, as in CSV. */
export const phrases: Format = {
  parse: (text) =>
    text.trim() === emptyList
      ? []
      : Array.from(text.matchAll(/\s*(?:"((?:[^"]|"")*)"\s*|([^,]*))(?:,|$)/g), ([, quoted, plain = ""]) =>
        quoted?.replaceAll(`""`, `"`) ?? plain.trim()).filter((entry) => entry !== ""),
  print: (value) =>
    Array.isArray(value) && value.length === 0
      ? emptyList
      : Array.from(Array.isArray(value) ? value : [], (entry) =>
        /[",]|^\s|\s$/.test(entry) ? `"${String(entry).replaceAll(`"`, `""`)}"` : entry).join(", "),
  expected: () => "a list"
}

export const programId: Format = {
  ...word,
  parse: (text) => Schema.is(ProgramId)(text) ? text : undefined,
  expected: () => "1 to 128 printable characters, no colon"
}

export const versionNumber: Format = {
  parse: (text) => Schema.is(VersionNumber)(Number(text)) ? Number(text) : undefined,
  print: String,
  expected: () => "an integer from 1 to 2147483647",
  input: () => ({ inputMode: "numeric" })
}
