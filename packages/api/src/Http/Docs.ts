import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { type HttpApi, type HttpApiGroup, HttpApiSwagger, OpenApi } from "effect/http-api"
import * as StaticFiles from "./StaticFiles.ts"

/**
 * `/openapi.json`, the description of the interface, and `/docs`, the same in a browser. Everything that the page needs
 * is in it, and its policy lets it ask this host only.
 */
export const layer = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
): Layer.Layer<never, never, HttpRouter.HttpRouter> =>
  Layer.mergeAll(
    HttpRouter.add("GET", "/openapi.json", Effect.sync(() => HttpServerResponse.jsonUnsafe(OpenApi.fromApi(api)))).pipe(
      Layer.provide(StaticFiles.ofRoute({}))
    ),
    HttpApiSwagger.layer(api, { path: "/docs" }).pipe(Layer.provide(StaticFiles.ofRoute(headers)))
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
