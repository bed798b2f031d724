import { Schema } from "effect"
import { countries } from "./generated/Iso3166.ts"

/** Whether a code is an officially assigned ISO 3166-1 alpha-2 code. */
export const isCountry = (code: string): boolean => countries.has(code)

/** An ISO 3166-1 alpha-2 code. */
export const Country = Schema.String.check(
  Schema.makeFilter<string>(isCountry, {
    expected: "an ISO 3166-1 alpha-2 country code",
    toJsonSchema: () => ({ pattern: "^[A-Z]{2}$" }),
    arbitraryConstraint: { patterns: [{ source: `^(?:${[...countries].join("|")})$`, flags: "" }] }
  })
).pipe(Schema.brand("Country"))
export type Country = typeof Country.Type

/** What was a {@link Country} when it was stored: codes come and go with versions of the service and of the client. */
export const StoredCountry: typeof Country = Schema.String.check(
  Schema.isPattern(/^[A-Z]{2}$/, { toJsonSchema: () => ({ pattern: "^[A-Z]{2}$" }) })
).pipe(Schema.brand("Country"))
