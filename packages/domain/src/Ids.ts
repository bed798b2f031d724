import { Schema } from "effect"

/**
 * Text on the wire: well-formed Unicode without NUL. Its length counts code points (decisions, section 1).
 */
export const text = (minimum: number, maximum: number) =>
  Schema.String.check(
    Schema.isBetweenCodePoints(minimum, maximum),
    Schema.makeFilter<string>((value) => value.isWellFormed() && !value.includes("\0"), {
      expected: "well-formed Unicode text without NUL"
    })
  )

/** {@link text} without control characters. */
const printableText = (minimum: number, maximum: number) =>
  Schema.String.check(
    Schema.isBetweenCodePoints(minimum, maximum),
    Schema.makeFilter<string>((value) => value.isWellFormed() && !/\p{Cc}/u.test(value), {
      expected: "well-formed Unicode text without control characters"
    })
  )

/** Longest identifier, in code points (contract, section 8). */
const identifierMaxCodePoints = 128

const identifier = text(1, identifierMaxCodePoints)
const printableIdentifier = printableText(1, identifierMaxCodePoints)

/** The integrator's id, which the operator assigns. */
export const IntegratorId = identifier.pipe(Schema.brand("IntegratorId"))
export type IntegratorId = typeof IntegratorId.Type

/** The integrator's own id for a user. */
export const UserId = identifier.pipe(Schema.brand("UserId"))
export type UserId = typeof UserId.Type

/** The processor's id of a transaction; `authorizationId` and `originalTransactionId` are such ids. */
export const TransactionId = identifier.pipe(Schema.brand("TransactionId"))
export type TransactionId = typeof TransactionId.Type

/** The id of a program, chosen by the integrator. It has no `:`, so that reward ids can be parsed. */
export const ProgramId = printableIdentifier.check(
  Schema.makeFilter<string>((value) => !value.includes(":"), {
    expected: "a program id without \":\"",
    toJsonSchema: () => ({ pattern: "^[^:]*$" })
  })
).pipe(Schema.brand("ProgramId"))
export type ProgramId = typeof ProgramId.Type

/** Name of an API key, unique among the integrator's keys and never reused. */
export const ApiKeyName = printableIdentifier.pipe(Schema.brand("ApiKeyName"))
export type ApiKeyName = typeof ApiKeyName.Type

/** Id of a webhook endpoint, chosen by the integrator. */
export const EndpointId = printableIdentifier.pipe(Schema.brand("EndpointId"))
export type EndpointId = typeof EndpointId.Type

/** Reference of a deposit, withdrawal or claim, unique in the vault. */
export const Reference = printableIdentifier.pipe(Schema.brand("Reference"))
export type Reference = typeof Reference.Type

/** `sandbox` or `production`: each integrator has one vault (contract, section 2.9). */
export const VaultId = Schema.Literals(["sandbox", "production"])
export type VaultId = typeof VaultId.Type

/** Compares strings by code point, in all planes. */
export const compareCodePoints = (left: string, right: string): number => {
  const length = Math.min(left.length, right.length)
  for (let index = 0; index < length; index++) {
    const a = left.charCodeAt(index)
    const b = right.charCodeAt(index)
    if (a !== b) return codePointRank(a) - codePointRank(b)
  }
  return left.length - right.length
}

/** Ranks surrogates after the rest of the plane, because they encode code points above U+FFFF. */
const codePointRank = (unit: number): number => unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
