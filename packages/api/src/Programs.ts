import { Programs } from "@card-rewards/core/Programs"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { unknownKeys } from "@card-rewards/domain/Program"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"

/** Programs and their versions. What a definition does not know shows in the body alone, which the request keeps. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "programs",
  Effect.fnUntraced(function*(handlers) {
    const programs = yield* Programs
    return handlers
      .handle("publish", ({ params: { programId, version }, payload, request }) =>
        forIntegrator((id) =>
          Effect.flatMap(Effect.orDie(request.json), (body) =>
            programs.publish(id, programId, version, payload, unknownKeys(body)))
        ))
      .handle("list", () => forIntegrator((id) => Effect.map(programs.list(id), (all) => ({ programs: all }))))
      .handle("get", ({ params }) =>
        forIntegrator((id) => Effect.map(programs.get(id, params.programId), (program) => ({ program }))))
  })
)
