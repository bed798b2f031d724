import { NodeRuntime } from "@effect/platform-node"
import { Cause, Console, Effect, Layer, Logger, References } from "effect"
import { HttpServer } from "effect/http"
import { awaitSchema } from "./AwaitSchema.ts"
import * as Configuration from "./Configuration.ts"
import * as Http from "./Http.ts"
import * as Server from "./Server.ts"
import * as Services from "./Services.ts"

/** The api's process: reads the environment, builds everything, and only then listens. */
const serve = Effect.gen(function*() {
  const config = yield* Configuration.load
  const database = { url: config.databaseUrl, poolSize: config.poolSize, applicationName: "card-rewards api" }
  yield* awaitSchema(database)
  const services = yield* Layer.build(Services.layer({ ...config, database }))
  const answer = yield* Effect.provideContext(Http.make(config.environment), services)
  const server = yield* Layer.build(Server.layer(config)).pipe(
    Effect.mapError(() =>
      new Configuration.StartRefused({ message: `Cannot listen on ${config.host}:${config.port}` })
    )
  )
  yield* HttpServer.serveEffect(answer).pipe(Effect.andThen(HttpServer.logAddress), Effect.provideContext(server))
  return yield* Effect.never
}).pipe(Effect.scoped)

const main = Effect.gen(function*() {
  const { format, level } = yield* Configuration.loadLogging
  const logger = format === "json" || (format === undefined && !process.stdout.isTTY)
    ? Logger.consoleJson
    : Logger.consolePretty()
  return yield* serve.pipe(
    Effect.provide(Logger.layer([logger])),
    Effect.provideService(References.MinimumLogLevel, level)
  )
}).pipe(
  Effect.tapCause((cause) =>
    Cause.hasInterruptsOnly(cause) ? Effect.void : Console.error(`card-rewards api: ${lineOf(cause)}`)
  )
)

const lineOf = (cause: Cause.Cause<{ readonly message: string }>): string => {
  const failure = cause.reasons.find((reason) => reason._tag === "Fail")
  return failure === undefined ? Cause.pretty(cause) : failure.error.message
}

NodeRuntime.runMain(main, { disableErrorReporting: true })
