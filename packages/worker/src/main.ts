import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import * as Secrets from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { defaultRetryDelays, parseRetryDelays } from "@card-rewards/domain/Delivery"
import { NodeRuntime } from "@effect/platform-node"
import { Cause, Config, Console, Effect, Layer, Logger, Redacted, References, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Connector } from "./Connector.ts"
import * as RewardMaturer from "./RewardMaturer.ts"
import * as SpendProcessor from "./SpendProcessor.ts"
import * as WebhookDispatcher from "./WebhookDispatcher.ts"

class StartRefused extends Schema.TaggedError<StartRefused>()("StartRefused", { message: Schema.String }) {}

/** `parse` gives undefined for a bad value; an absent or empty variable is the fallback. */
const setting = <A>(name: string, expected: string, fallback: A | undefined, parse: (text: string) => A | undefined) =>
  Effect.gen(function*() {
    const text = yield* Config.withDefault(Config.String(name), "")
    const value = text === "" ? fallback : parse(text)
    return value === undefined ? yield* new StartRefused({ message: "" }) : value
  }).pipe(Effect.mapError(() => new StartRefused({ message: `${name} must be ${expected}` })))

const among = <A extends string>(...values: ReadonlyArray<A>) => (text: string) => values.find((value) => value === text)

const configuration = Effect.gen(function*() {
  const url = yield* setting("DATABASE_URL", "a postgres:// address", undefined, (text) =>
    /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) ? Redacted.make(text) : undefined)
  const keys = yield* setting("SECRETS_KEY", "32 bytes in base64", undefined, (text) => Redacted.make(text)).pipe(
    Effect.flatMap(Secrets.parseKeys),
    Effect.mapError(({ message }) => new StartRefused({ message }))
  )
  const poolSize = yield* setting("DATABASE_POOL_SIZE", "an integer from 1 to 1000", 10, (text) =>
    /^([1-9]\d{0,2}|1000)$/.test(text) ? Number(text) : undefined)
  const environment = yield* setting("ENVIRONMENT", "sandbox or production", "sandbox", among("sandbox", "production"))
  const allow = yield* setting("WEBHOOK_ALLOW_PRIVATE_NETWORK", "true or false", "false", among("true", "false"))
  if (environment === "production" && allow === "true") {
    return yield* new StartRefused({ message: "WEBHOOK_ALLOW_PRIVATE_NETWORK is refused in production" })
  }
  const expected = "1 to 50 durations of 1ms to 7d such as 300ms,5s,2m,1h"
  const retryDelays = yield* setting("WEBHOOK_RETRY_DELAYS", expected, defaultRetryDelays, parseRetryDelays)
  return { url, keys, poolSize, allowPrivateNetwork: allow === "true", retryDelays }
})

const patienceSeconds = 30
const askAgainMillis = 500

/** Waits for the schema that this code works on; a newer one, and one that does not come, refuse the start. */
const awaitSchema = Effect.fnUntraced(function*(config: Database.DatabaseConfig) {
  let found: number | undefined
  const look = Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const [table] = yield* sql<{ present: boolean }>`SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS present`
    if (table?.present !== true) return 0
    const [last] = yield* sql<{ version: number }>`SELECT coalesce(max(migration_id), 0)::int AS version FROM effect_sql_migrations`
    return last?.version ?? 0
  }).pipe(Effect.provide(Database.layer({ ...config, poolSize: 1 })), Effect.catchCause(() => Effect.succeed(undefined)))
  const wait = Effect.gen(function*() {
    while ((found = yield* look) === undefined || found < Database.schemaVersion) yield* Effect.sleep(askAgainMillis)
  })
  yield* Effect.timeoutOption(wait, patienceSeconds * 1_000)
  if (found === Database.schemaVersion) return
  return yield* new StartRefused({
    message: found === undefined
      ? `The database could not be reached within ${patienceSeconds} s`
      : `The database has schema ${found}, and this version works on ${Database.schemaVersion}: run "npm run admin -- migrate"`
  })
})

const work = Effect.gen(function*() {
  const config = yield* configuration
  const database = { url: config.url, poolSize: config.poolSize, applicationName: "card-rewards worker" }
  yield* awaitSchema(database)
  const services = Layer.mergeAll(
    Processing.layer.pipe(Layer.provide(Programs.layer)),
    Deliveries.layer(config).pipe(
      Layer.provide(WebhookEndpoints.layer(config)),
      Layer.provide(Secrets.Secrets.layer(config))
    ),
    Connector.layer(config)
  ).pipe(Layer.provide(Database.layer(database)))
  const fibers = Layer.mergeAll(SpendProcessor.layer, RewardMaturer.layer, WebhookDispatcher.layer)
  return yield* Layer.launch(Layer.provide(fibers, services))
})

const main = Effect.gen(function*() {
  const level = yield* setting("LOG_LEVEL", "trace, debug, info, warn, error or fatal", "Info" as const, (text) =>
    ({ trace: "Trace", debug: "Debug", info: "Info", warn: "Warn", error: "Error", fatal: "Fatal" } as const)[
      among("trace", "debug", "info", "warn", "error", "fatal")(text) ?? "info"
    ])
  const format = yield* setting("LOG_FORMAT", "pretty or json", process.stdout.isTTY ? "pretty" : "json", among("pretty", "json"))
  const logger = format === "json" ? Logger.consoleJson : Logger.consolePretty()
  return yield* work.pipe(Effect.provide(Logger.layer([logger])), Effect.provideService(References.MinimumLogLevel, level))
}).pipe(
  Effect.tapCause((cause) =>
    Cause.hasInterruptsOnly(cause) ? Effect.void : Console.error(`card-rewards worker: ${lineOf(cause)}`)
  )
)

const lineOf = (cause: Cause.Cause<{ readonly message: string }>): string => {
  const failure = cause.reasons.find((reason) => reason._tag === "Fail")
  return failure === undefined ? Cause.pretty(cause) : failure.error.message
}

NodeRuntime.runMain(main, { disableErrorReporting: true })
