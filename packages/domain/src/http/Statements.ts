import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Asset } from "../Money.ts"
import { maxStatementDays, Statement } from "../Statement.ts"
import { CalendarDate } from "../Time.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

/** Statements of the vault, by days. */
export class Statements extends HttpApiGroup.make("statements").add(
  HttpApiEndpoint.get("get", "/v1/statements/:asset", {
    params: { asset: Asset },
    query: { from: CalendarDate, to: CalendarDate },
    success: Schema.Struct({ statement: Statement }).annotate({ description: "The statement." })
  }).annotateMerge(OpenApi.annotations({
    summary: "Read a statement of the vault",
    description: "The movements of the vault in one asset on the UTC days `from` to `to`, " +
      `at most ${maxStatementDays} days, with its balance before and after each of them; days that have not begun ` +
      "are left out. The sums come from the journal. What a statement shows of a day that has ended never changes. " +
      "With `Accept: text/csv` it is a table for spreadsheets, in units of the asset: each amount is text that ends " +
      "with the asset's name, so that no digit is lost."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "Statements of the vault, for accounting.") {}
