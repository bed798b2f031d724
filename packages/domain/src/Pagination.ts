import { Schema, SchemaTransformation } from "effect"
import { InvalidRequest } from "./Errors.ts"
import { text } from "./Ids.ts"

/** The default and the greatest page size of a list (contract, section 8). */
export const defaultPageSize = 50
export const maxPageSize = 100

/** The most JSON of a page's entries, in bytes, unless one entry alone is larger (decisions, section 3). */
export const maxPageBytes = 1_048_576

/** An integer from 1 in digits without leading zeros; `pattern` is that of all such digits, or of a few more. */
export const integerUpTo = (maximum: number, pattern: RegExp) => {
  const expected = `an integer from 1 to ${maximum}`
  return Schema.String.check(
    // OpenApi.ts makes an integer of it
    Schema.isPattern(pattern, { expected, toJsonSchema: () => ({ minimum: 1, maximum }) })
  ).pipe(Schema.decodeTo(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum }, { expected })),
    SchemaTransformation.transform({ decode: Number, encode: (value: number) => value.toString() })
  ))
}

/** Query of a paginated list. The cursor is opaque: pass the `next` of a page. */
export const PageQuery = {
  limit: Schema.optionalKey(integerUpTo(maxPageSize, /^([1-9][0-9]?|100)$/u)),
  cursor: Schema.optionalKey(text(1, 512))
}

const expectedCursor = "the `next` of an earlier page"

/** The error of a request whose cursor is not the `next` of a page. */
export const invalidCursor = () => new InvalidRequest({ part: "query", message: `cursor: expected ${expectedCursor}` })

/** The position of a reader of a log: the number of the last event or entry that it has read, in digits on the wire. */
export const LogNumber = Schema.String.check(
  Schema.isPattern(/^(0|[1-9][0-9]{0,17})$/u, { expected: expectedCursor })
).pipe(Schema.decodeTo(
  Schema.BigInt.check(Schema.isBetweenBigInt({ minimum: 0n, maximum: 10n ** 18n - 1n })),
  SchemaTransformation.transform({ decode: (value) => BigInt(value), encode: (value: bigint) => value.toString() })
))

/** The page that a client requests, decoded. */
export interface Page {
  readonly limit: number
  readonly cursor: string | undefined
}
