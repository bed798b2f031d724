import { awaitSchema } from "@card-rewards/core/AwaitSchema"
import * as Process from "@card-rewards/core/Process"
import { StartRefused } from "@card-rewards/core/Settings"
import { Context, Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import * as Configuration from "./Configuration.ts"
import * as Http from "./Http.ts"
import * as Telemetry from "./Http/Telemetry.ts"
import { KeyChecks } from "./Pipeline/KeyChecks.ts"
import * as Server from "./Server.ts"
import * as Services from "./Services.ts"

/** The api's process: reads the environment, builds everything, and only then listens. */
const serve = Effect.gen(function*() {
  const config = yield* Configuration.load
  const database = yield* awaitSchema(
    { url: config.databaseUrl, poolSize: config.poolSize, applicationName: "card-rewards api" },
    "api"
  )
  const services = yield* Layer.build(Services.layer({ ...config, database }))
  const { integratorOf } = Context.get(services, KeyChecks)
  const answer = yield* Effect.provideContext(Http.make(config.environment), services)
  const server = yield* Layer.build(Server.layer({ ...config, integratorOf })).pipe(
    Effect.mapError(() => new StartRefused({ message: `Cannot listen on ${config.host}:${config.port}` }))
  )
  yield* HttpServer.serveEffect(answer).pipe(
    Effect.andThen(HttpServer.logAddress),
    Effect.provideContext(server),
    Effect.provide(Telemetry.sampling)
  )
  return yield* Effect.never
}).pipe(Effect.scoped)

Process.run(serve, { name: "api", terminal: process.stdout.isTTY })
