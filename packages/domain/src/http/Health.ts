import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"

/** Whether the process can serve; needs no key. */
export class Health extends HttpApiGroup.make("health", { topLevel: true }).add(
  HttpApiEndpoint.get("health", "/health", { success: HttpApiSchema.NoContent })
) {}
