import * as Secrets from "@card-rewards/core/Secrets"
import { Config, Effect, type Redacted, Schema, SchemaTransformation } from "effect"
import type { Limit } from "./RateLimit.ts"

/** A start that cannot succeed; the message is one clear line, without secrets. */
export class StartRefused extends Schema.TaggedError<StartRefused>()("StartRefused", { message: Schema.String }) {}

/** The environment as the operations page describes it. Only `main.ts` reads it. */
export const load = Effect.gen(function*() {
  const host = yield* setting("HOST", "an address to listen on", Config.NonEmptyString, "127.0.0.1")
  const port = yield* setting("PORT", "a port from 0 to 65535", (name) => Config.schema(Port, name), 3_000)
  const databaseUrl = yield* required("DATABASE_URL", "a postgres:// address", (name) => Config.schema(DatabaseUrl, name))
  const environment = yield* setting(
    "ENVIRONMENT",
    "sandbox or production",
    (name) => Config.schema(Schema.Literals(["sandbox", "production"]), name),
    "sandbox"
  )
  const secretsKeys = yield* required("SECRETS_KEY", "32 bytes in base64", Config.Redacted).pipe(
    Effect.flatMap(Secrets.parseKeys),
    Effect.catchTag("InvalidSecretsKey", ({ message }) => new StartRefused({ message }))
  )
  const allowPrivateNetwork = yield* setting(
    "WEBHOOK_ALLOW_PRIVATE_NETWORK",
    "true or false",
    (name) => Config.schema(Schema.Literals(["true", "false"]), name),
    "false"
  )
  if (environment === "production" && allowPrivateNetwork === "true") {
    return yield* new StartRefused({ message: "WEBHOOK_ALLOW_PRIVATE_NETWORK is refused in production" })
  }
  return {
    host,
    port,
    databaseUrl,
    poolSize: yield* setting("DATABASE_POOL_SIZE", "an integer from 1 to 1000", (name) => Config.schema(PoolSize, name), 10),
    environment,
    secretsKeys,
    allowPrivateNetwork: allowPrivateNetwork === "true",
    limits: {
      ingest: yield* limit("RATE_LIMIT_INGEST", { perSecond: 1_000, burst: 2_000 }),
      read: yield* limit("RATE_LIMIT_READ", { perSecond: 200, burst: 400 }),
      manage: yield* limit("RATE_LIMIT_MANAGE", { perSecond: 50, burst: 500 }),
      auth: yield* limit("RATE_LIMIT_AUTH", { perSecond: 20, burst: 20 })
    }
  }
})

/** What the process writes about itself; read apart, so that it holds for the lines of a refused start too. */
export const loadLogging = Effect.gen(function*() {
  return {
    level: yield* setting(
      "LOG_LEVEL",
      Object.keys(levels).join(", "),
      (name) => Config.map(Config.schema(Schema.Literals(["trace", "debug", "info", "warn", "error", "fatal"]), name), (level) => levels[level]),
      levels.info
    ),
    format: yield* setting<"pretty" | "json" | undefined>(
      "LOG_FORMAT",
      "pretty or json",
      (name) => Config.schema(Schema.Literals(["pretty", "json"]), name),
      undefined
    )
  }
})

const levels = {
  trace: "Trace",
  debug: "Debug",
  info: "Info",
  warn: "Warn",
  error: "Error",
  fatal: "Fatal"
} as const

const integer = (minimum: number, maximum: number) =>
  Schema.String.check(Schema.isPattern(/^[0-9]{1,9}$/)).pipe(
    Schema.decodeTo(
      Schema.Int.check(Schema.isBetween({ minimum, maximum })),
      SchemaTransformation.transform({ decode: Number, encode: String })
    )
  )

const Port = integer(0, 65_535)
const PoolSize = integer(1, 1_000)
const DatabaseUrl = Schema.Redacted(Schema.String.check(
  Schema.makeFilter<string>((value) => /^postgres(ql)?:\/\//.test(value) && URL.canParse(value))
))

const limit = (name: string, fallback: Limit) =>
  setting<Limit>(name, "per-second:burst such as 200:400, or off", (variable) => Config.schema(LimitText, variable).pipe(Config.map(parseLimit)), fallback)

const LimitText = Schema.String.check(Schema.isPattern(/^(off|[1-9][0-9]{0,6}:[1-9][0-9]{0,6})$/))

const parseLimit = (text: string): Limit => {
  if (text === "off") return "off"
  const [perSecond = "", burst = ""] = text.split(":")
  return { perSecond: Number(perSecond), burst: Number(burst) }
}

/** An optional variable; an empty one counts as absent. */
const setting = <A>(
  name: string,
  expected: string,
  config: (name: string) => Config.Config<A>,
  fallback: A
): Effect.Effect<A, StartRefused> =>
  Effect.gen(function*() {
    const text = yield* Config.withDefault(Config.String(name), "")
    return text === "" ? fallback : yield* config(name)
  }).pipe(Effect.mapError(() => new StartRefused({ message: `${name} must be ${expected}` })))

const required = <A extends Redacted.Redacted>(name: string, expected: string, config: (name: string) => Config.Config<A>) =>
  Effect.gen(function*() {
    return yield* config(name)
  }).pipe(Effect.mapError(() => new StartRefused({ message: `${name} is required and must be ${expected}` })))
