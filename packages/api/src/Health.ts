import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"

/** `/health` answers while the process can serve. */
export const layer = HttpApiBuilder.group(SandboxApi, "health", (handlers) =>
  handlers.handle("health", () => Effect.void))
