import { Schema, SchemaTransformation } from "effect"
import { text } from "./Ids.ts"

/** Page size of a list where the request names none, and the largest there is (contract, section 8). */
export const defaultPageSize = 50
export const maxPageSize = 100

/** Query of a paged list. The cursor is opaque: pass a page's `next`. */
export const PageQuery = {
  limit: Schema.optionalKey(
    Schema.String.check(
      // one spelling each: without leading zeros
      Schema.isPattern(/^([1-9][0-9]?|100)$/u, { expected: `an integer from 1 to ${maxPageSize}` })
    ).pipe(Schema.decodeTo(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxPageSize })),
      SchemaTransformation.transform({ decode: Number, encode: (value: number) => value.toString() })
    ))
  ),
  cursor: Schema.optionalKey(text(1, 512))
}

/** A page as the services take it. */
export interface Page {
  readonly limit: number
  readonly cursor: string | undefined
}
