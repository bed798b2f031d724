import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import type { Statement } from "@card-rewards/domain/Statement"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { json, prefers } from "./ContentTypes.ts"
import { forIntegrator } from "./ForIntegrator.ts"
import { printCsv } from "./Statements/Csv.ts"

/** Statements of the vault, as JSON or as CSV. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "statements",
  (handlers) =>
    handlers.handle("get", ({ params: { asset }, query, request }) =>
      forIntegrator((id, { statements }) =>
        Effect.map(statements.get(id, { asset, ...query }), (statement) =>
          prefers(request, "text/csv")
            ? HttpServerResponse.text(printCsv(statement), file(`statement-${asset}-${query.from}-${query.to}.csv`))
            : HttpServerResponse.text(print(statement), json))))
)

const file = (name: string) => ({
  contentType: "text/csv; charset=utf-8; header=present",
  headers: { "content-disposition": `attachment; filename="${name}"` }
})

/** The general encoder would take several times as long for 400 days. */
const print = (statement: Statement): string =>
  JSON.stringify({ statement }, (_, value: unknown) => typeof value === "bigint" ? value.toString() : value)
