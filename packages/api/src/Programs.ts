import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { unknownKeys } from "@card-rewards/domain/Program/Problems"
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { json } from "./ContentTypes.ts"
import { forIntegrator } from "./ForIntegrator.ts"
import { inPieces } from "./LargeAnswers.ts"
import * as Problems from "./Pipeline/Problems.ts"
import { encodeSimulation } from "./Programs/EncodeSimulation.ts"

/** Programs and their versions. What a definition does not know shows in the body alone, which the request keeps. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "programs",
  (handlers) =>
    handlers
      .handle("publish", ({ params: { programId, version }, payload, request }) =>
        forIntegrator((id, { programs }) =>
          Effect.flatMap(Effect.orDie(request.json), (body) =>
            programs.publish(id, programId, version, payload, unknownKeys(body)))
        ))
      .handle("list", () =>
        forIntegrator((id, { programs }) =>
          Effect.map(programs.list(id), (all) => HttpServerResponse.jsonUnsafe({ programs: all }))))
      .handle("get", ({ params }) =>
        forIntegrator((id, { programs }) =>
          Effect.map(programs.get(id, params.programId), (program) => inPieces(program))))
      .handle("simulate", ({ params, payload, request }) =>
        forIntegrator(Effect.fnUntraced(function*(id, { simulations }) {
          const { definition } = yield* withoutOtherKeys(yield* Effect.orDie(request.json))
          const simulation = yield* simulations.simulate(id, params.programId, payload, unknownKeys(definition))
          return HttpServerResponse.text(yield* encodeSimulation(simulation), json)
        })))
)

/** What is wrong inside the definition is a problem of the program; beside it, of the request. */
const withoutOtherKeys = (body: unknown) => Problems.decodeBody(decodeKeys, body)

const decodeKeys = Schema.decodeUnknownEffect(
  Schema.Struct({ definition: Schema.Unknown, from: Schema.Unknown, to: Schema.Unknown })
)
