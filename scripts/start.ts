/** `npm start`: starts PostgreSQL, api and worker, and creates what a first request needs. See docs/operations.md. */
import { StartRefused } from "@card-rewards/core/Settings"
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Console, Duration, Effect, Fiber, Layer, Predicate, Redacted, Schedule } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import * as path from "node:path"
import { keepRunning, runOnce } from "./start/Children.ts"
import * as DemoFile from "./start/DemoFile.ts"
import { requireFree } from "./start/Port.ts"
import { createDemo, createLogins, migrate, refuseDatabase } from "./start/Provision.ts"
import * as Settings from "./start/Settings.ts"

const healthTimeout = Duration.seconds(30)

const start = Effect.gen(function*() {
  const settings = yield* Settings.read
  const ownerUrl = settings.databaseUrl ?? (yield* startPostgres(settings))
  const check = refuseDatabase(ownerUrl, settings.environment)
  yield* check
  yield* migrate(ownerUrl)
  // In another database the operator chooses the logins; see docs/operations.md.
  const urls = settings.databaseUrl === undefined ? yield* createLogins(ownerUrl) : { api: ownerUrl, worker: ownerUrl }
  const env = {
    SECRETS_KEY: Redacted.value(settings.secretsKey),
    DATA_DIR: settings.dataDir,
    ENVIRONMENT: settings.environment,
    HOST: settings.host,
    PORT: String(settings.port)
  }
  yield* settings.releasePort
  // where another process keeps the port, and not for a moment only, each start of the api would fail
  const isFree = Effect.retry(requireFree(settings.host, settings.port), { times: 4, schedule: Schedule.spaced(500) })
  const checkApi = Effect.andThen(check, isFree)
  const api = yield* keepRunning("api", { ...env, DATABASE_URL: Redacted.value(urls.api) }, checkApi)
  const worker = yield* keepRunning("worker", { ...env, DATABASE_URL: Redacted.value(urls.worker) }, check)
  const announced = untilHealthy(settings.baseUrl).pipe(
    Effect.andThen(printAddresses(settings, ownerUrl)),
    Effect.andThen(buildConsole),
    Effect.andThen(Effect.never)
  )
  return yield* Effect.raceAllFirst([Fiber.join(api), Fiber.join(worker), announced])
}).pipe(Effect.scoped)

/** Built in the scope that closes last, because the server must outlive the api and the worker. */
const startPostgres = Effect.fnUntraced(function*(settings: Settings.Settings) {
  const context = yield* Layer.build(EmbeddedPostgres.layer({ dataDir: path.join(settings.dataDir, "postgres") }))
  const { url } = yield* Effect.provide(EmbeddedPostgres, context)
  return url
})

/** Runs beside the service, which answers 503 for the page until the build is finished. */
const buildConsole = runOnce("packages/console/build.ts", {}).pipe(
  Effect.tap((end) => end === "code 0" ? Effect.void : Console.error(`The console could not be built (${end})`))
)

const untilHealthy = (baseUrl: string) =>
  HttpClient.get(`${baseUrl}/health`).pipe(
    Effect.filterOrFail((response) => response.status === 204),
    Effect.retry(Schedule.spaced("50 millis")),
    Effect.timeoutOrElse({
      duration: healthTimeout,
      orElse: () =>
        Effect.fail(
          new StartRefused({
            message: `The api did not answer at ${baseUrl}/health within ${Duration.format(healthTimeout)}: ` +
              "see its log lines above"
          })
        )
    })
  )

const printAddresses = Effect.fnUntraced(function*(settings: Settings.Settings, ownerUrl: Redacted.Redacted) {
  const { baseUrl } = settings
  const lines = [
    "",
    `Card Rewards is running.`,
    "",
    `  api          ${baseUrl}`,
    `  docs         ${baseUrl}/docs`,
    `  console      ${baseUrl}/console`
  ]
  if (settings.environment !== "sandbox") return yield* Console.log(lines.join("\n"))
  const demo = yield* findOrCreateDemo(settings, ownerUrl)
  return yield* Console.log([
    ...lines,
    `  integrator   ${demo.integratorId}`,
    `  API key      ${demo.apiKey}`,
    "",
    "Try it:",
    "",
    `  curl ${baseUrl}/v1/programs -H 'x-api-key: ${demo.apiKey}'`,
    "",
    "Ctrl-C stops everything.",
    ""
  ].join("\n"))
})

/** Returns the key of an earlier start if the api still accepts it. */
const findOrCreateDemo = Effect.fnUntraced(function*(settings: Settings.Settings, ownerUrl: Redacted.Redacted) {
  const known = yield* DemoFile.read(settings.dataDir).pipe(
    Effect.filterOrFail((demo) => demo.apiKey.length > 0),
    Effect.tap((demo) => acceptsKey(settings.baseUrl, demo.apiKey)),
    Effect.orElseSucceed(() => undefined)
  )
  const { integratorId, apiKey } = known ?? (yield* createDemo(ownerUrl))
  const demo = { baseUrl: settings.baseUrl, integratorId, apiKey }
  yield* Effect.sync(() => DemoFile.write(settings.dataDir, demo))
  return demo
})

const acceptsKey = (baseUrl: string, apiKey: string) =>
  HttpClient.execute(
    HttpClientRequest.get(`${baseUrl}/v1/programs`).pipe(HttpClientRequest.setHeader("x-api-key", apiKey))
  ).pipe(
    Effect.filterOrFail((response) => response.status !== 401)
  )

/** Prints one line for an expected failure, and the whole cause of a defect. */
const printFailure = (cause: Cause.Cause<unknown>) => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.void
  const error = Cause.squash(cause)
  const isExpected = Predicate.hasProperty(error, "_tag") && Predicate.hasProperty(error, "message")
  return Console.error(isExpected ? String(error.message) : Cause.pretty(cause))
}

start.pipe(
  Effect.provide(FetchHttpClient.layer),
  Effect.tapCause(printFailure),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
