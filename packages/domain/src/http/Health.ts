import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"

/** The health check, which needs no key. */
export class Health extends HttpApiGroup.make("health", { topLevel: true }).add(
  HttpApiEndpoint.get("health", "/health", { success: HttpApiSchema.NoContent }).annotateMerge(OpenApi.annotations({
    summary: "Check health",
    description: "204 when the process can serve. It needs no key and does not check the database."
  }))
)
  .annotate(OpenApi.Description, "The health check, the only operation that needs no key.") {}
