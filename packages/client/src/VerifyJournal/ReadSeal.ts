import { JournalSeal, maxSealedEntries, noSealHash, Sha256 } from "@card-rewards/domain/JournalSeal"
import { LogNumber } from "@card-rewards/domain/Pagination"
import { Option, Schema } from "effect"
import type { Unreadable } from "../ExportedEntry.ts"

/** A seal of the journal: a line of JSON, the JSON of such a line, or as the client returns it. */
export type ExportedSeal = string | typeof JournalSeal.Encoded | JournalSealFields

/** A seal as the client returns it, without brands. */
export interface JournalSealFields extends Omit<JournalSeal, "at"> {
  readonly at: number
}

const KeptSeal = Schema.Struct({
  seal: Schema.optionalKey(LogNumber),
  toEntry: Schema.optionalKey(LogNumber),
  hash: Sha256
})

/** A kept seal that was read; it has a number, the last entry, or both. */
export type KeptSealFields = typeof KeptSeal.Type

/** What was kept of a seal: its hash, and its number or the last of its entries. Whole seals have both. */
export type KeptSeal = string | typeof KeptSeal.Encoded | KeptSealFields

/** What a seal has to follow. */
export type SealEnd = Pick<JournalSeal, "seal" | "toEntry" | "hash">

/** What the first seal follows. */
export const beginning: SealEnd = { seal: 0n, toEntry: 0n, hash: noSealHash }

const decoded = <A, I>(schema: Schema.Codec<A, I>) => {
  const decode = Schema.decodeUnknownOption(schema)
  const decodeText = Schema.decodeUnknownOption(Schema.fromJsonString(schema))
  const is = Schema.is(schema)
  return (value: unknown): A | undefined =>
    is(value) ? value : Option.getOrUndefined(typeof value === "string" ? decodeText(value) : decode(value))
}

/** Reads a present seal; undefined where it is none. */
export const readSeal: (value: unknown) => JournalSeal | undefined = decoded(JournalSeal)

const readKept = decoded(Schema.StructWithRest(KeptSeal, [Schema.Record(Schema.String, Schema.Unknown)]))

/**
 * Reads a kept seal. Refuses one with a member that no seal has, such as the seals of all integrators that the operator
 * of the service keeps: most of them would be found missing.
 */
export const readKeptSeal = (value: unknown): KeptSealFields | Unreadable => {
  const kept = readKept(value)
  if (kept === undefined || kept.seal === undefined && kept.toEntry === undefined) {
    return { reason: "a kept seal needs a hash, and the number of the seal or of its last entry" }
  }
  return Object.keys(kept).every((name) => Object.hasOwn(JournalSeal.fields, name))
    ? kept
    : { reason: "a kept seal has a member that no seal of an integrator has" }
}

/** Why a seal does not follow the one before it. */
export const chainFault = (
  before: SealEnd,
  { fromEntry, previousHash, seal, toEntry }: JournalSeal
): "number" | "entries" | "previousHash" | undefined => {
  if (seal !== before.seal + 1n) return "number"
  const entries = toEntry - fromEntry + 1n
  if (fromEntry !== before.toEntry + 1n || entries < 1n || entries > maxSealedEntries) return "entries"
  return previousHash === before.hash ? undefined : "previousHash"
}

/** Whether a kept seal ends before (-1), with (0) or behind (1) a present one. */
export const placeOf = (kept: KeptSealFields, present: SealEnd): number => {
  const [own, other] = kept.seal === undefined ? [kept.toEntry ?? 0n, present.toEntry] : [kept.seal, present.seal]
  return own < other ? -1 : own > other ? 1 : 0
}
