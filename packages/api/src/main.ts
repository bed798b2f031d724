import * as Process from "@card-rewards/core/Process"
import { makePermits } from "@card-rewards/core/Simulations"
import { Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import { Cells } from "./Cells.ts"
import * as Configuration from "./Configuration.ts"
import * as Http from "./Http.ts"
import * as Telemetry from "./Http/Telemetry.ts"
import * as Server from "./Server.ts"

/** The api's process: reads the environment, builds everything, and only then listens. */
const serve = Effect.gen(function*() {
  const config = yield* Configuration.load
  const cells = yield* Layer.build(Cells.layer({ ...config, takeSimulationPermit: makePermits() }))
  const { answer, integratorOf } = yield* Effect.provideContext(Http.make(config), cells)
  const server = yield* Layer.build(Server.layer({ ...config, integratorOf }))
  yield* HttpServer.serveEffect(answer).pipe(
    Effect.andThen(HttpServer.logAddress),
    Effect.provideContext(server),
    Effect.provide(Telemetry.untraced)
  )
  return yield* Effect.never
}).pipe(Effect.scoped)

Process.run(serve, "api")
