import { llmsText } from "@card-rewards/domain/http/OpenApi/Llms"
import { postmanCollection } from "@card-rewards/domain/http/OpenApi/Postman"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { type HttpApi, type HttpApiGroup, HttpApiSwagger, OpenApi } from "effect/http-api"
import { codeSamplesScript } from "./Docs/CodeSamplesScript.ts"
import * as StaticFiles from "./StaticFiles.ts"

/**
 * `/openapi.json`, the description of the interface, and what is made from it: `/docs`, the same in a browser,
 * `/llms.txt` for language models and `/postman.json` for Postman. All that the page needs is in it, and its policy
 * lets it ask this host only.
 */
export const layer = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
): Layer.Layer<never, never, HttpRouter.HttpRouter> =>
  Layer.mergeAll(
    file("/openapi.json", () => HttpServerResponse.jsonUnsafe(OpenApi.fromApi(api))),
    file("/postman.json", () => HttpServerResponse.jsonUnsafe(postmanCollection(OpenApi.fromApi(api)))),
    file("/llms.txt", () =>
      HttpServerResponse.text(llmsText(OpenApi.fromApi(api)), { contentType: "text/plain; charset=utf-8" })),
    HttpApiSwagger.layer(api, { path: "/docs" }).pipe(Layer.provide(StaticFiles.ofRoute(headers, withCodeSamples)))
  )

const file = (path: `/${string}`, make: () => HttpServerResponse.HttpServerResponse) =>
  HttpRouter.add("GET", path, Effect.sync(make)).pipe(Layer.provide(StaticFiles.ofRoute({})))

/** The page with the script that shows the code samples. */
const withCodeSamples = (page: Uint8Array): Uint8Array =>
  Buffer.from(
    Buffer.from(page).toString().replace(/<\/body>\s*<\/html>\s*$/, () => `${codeSamplesScript}</body>\n</html>`)
  )

const headers = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'unsafe-inline'",
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join("; "),
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer"
}
