import { Schema, SchemaTransformation } from "effect"
import { text } from "./Ids.ts"

/** The default and the greatest page size of a list (contract, section 8). */
export const defaultPageSize = 50
export const maxPageSize = 100

/** The most JSON of a page's entries, in bytes, unless one entry alone is larger (decisions, section 3). */
export const maxPageBytes = 1_048_576

/** Query of a paginated list. The cursor is opaque: pass the `next` of a page. */
export const PageQuery = {
  limit: Schema.optionalKey(
    Schema.String.check(
      // no leading zeros
      Schema.isPattern(/^([1-9][0-9]?|100)$/u, { expected: `an integer from 1 to ${maxPageSize}` })
    ).pipe(Schema.decodeTo(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxPageSize })),
      SchemaTransformation.transform({ decode: Number, encode: (value: number) => value.toString() })
    ))
  ),
  cursor: Schema.optionalKey(text(1, 512))
}

/** The page that a client requests, decoded. */
export interface Page {
  readonly limit: number
  readonly cursor: string | undefined
}
