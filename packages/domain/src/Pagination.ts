import { Schema, SchemaTransformation } from "effect"
import { text } from "./Ids.ts"

/** Page size of a list where the request names none, and the largest there is (contract, section 8). */
export const defaultPageSize = 50
export const maxPageSize = 100

/** Query of a paged list. The cursor is opaque: pass a page's `next`. */
export const PageQuery = {
  limit: Schema.optionalKey(
    Schema.String.check(
      Schema.makeFilter<string>((value) => /^[0-9]{1,3}$/.test(value) && Number(value) >= 1 && Number(value) <= maxPageSize, {
        expected: `an integer from 1 to ${maxPageSize}`,
        toJsonSchema: () => ({ type: "string", pattern: "^(0{0,2}[1-9]|0?[1-9][0-9]|100)$" })
      })
    ).pipe(Schema.decodeTo(
      Schema.Int,
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
