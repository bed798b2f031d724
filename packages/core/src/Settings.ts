import { Config, Effect, Redacted, Schema } from "effect"
import { addressFault, type Cells, onlyCell, parseCells } from "./Cells.ts"
import { defaultPoolSize } from "./Database/PoolShares.ts"
import * as Secrets from "./Secrets.ts"

/** The process cannot start with its configuration or database. The message is one line, without secrets. */
export class StartRefused extends Schema.TaggedError<StartRefused>()("StartRefused", { message: Schema.String }) {}

/** The settings that api and worker share, read from the environment; see docs/operations.md. */
export const shared = Effect.gen(function*() {
  const cells: Cells = (yield* severalCells) ??
    [onlyCell(yield* Effect.tap(required("DATABASE_URL", "a postgres:// address", parseUrl), requireUsable))]
  const secretsKeys = yield* required("SECRETS_KEY", "32 bytes in base64", Redacted.make).pipe(
    Effect.flatMap(Secrets.parseKeys),
    Effect.catchTag("InvalidSecretsKey", ({ message }) => new StartRefused({ message }))
  )
  const poolSize = yield* setting("DATABASE_POOL_SIZE", "an integer from 1 to 1000", defaultPoolSize, integer(1, 1_000))
  const environment = yield* setting("ENVIRONMENT", "sandbox or production", "sandbox", oneOf("sandbox", "production"))
  const allow = yield* setting("WEBHOOK_ALLOW_PRIVATE_NETWORK", "true or false", "false", oneOf("true", "false"))
  if (environment === "production" && allow === "true") {
    return yield* new StartRefused({ message: "WEBHOOK_ALLOW_PRIVATE_NETWORK is refused in production" })
  }
  return { cells, secretsKeys, poolSize, environment, allowPrivateNetwork: allow === "true" }
})

/** The log settings. They are read separately, so that they apply to the error line of a refused start too. */
export const logging = Effect.fnUntraced(function*(options: { readonly terminal: boolean }) {
  const level = yield* setting("LOG_LEVEL", levels.join(", "), "info", oneOf(...levels))
  const format = yield* setting(
    "LOG_FORMAT",
    "pretty or json",
    options.terminal ? "pretty" : "json",
    oneOf("pretty", "json")
  )
  return { level, format }
})

const levels = ["trace", "debug", "info", "warn", "error", "fatal"] as const

/** Reads an optional variable; an empty one counts as absent. `parse` returns undefined for an invalid value. */
export const setting = <A>(
  name: string,
  expected: string,
  fallback: NoInfer<A>,
  parse: (text: string) => A | undefined
) => parsed(name, `must be ${expected}`, fallback, parse)

/** Reads a required variable. `parse` returns undefined for an invalid value. */
export const required = <A>(name: string, expected: string, parse: (text: string) => A | undefined) =>
  parsed(name, `is required and must be ${expected}`, undefined, parse)

const parsed = Effect.fnUntraced(function*<A>(
  name: string,
  rule: string,
  fallback: NoInfer<A> | undefined,
  parse: (text: string) => A | undefined
) {
  const refusal = new StartRefused({ message: `${name} ${rule}` })
  const text = yield* read(name, refusal)
  const value = text === "" ? fallback : parse(text)
  return value === undefined ? yield* refusal : value
})

const read = (name: string, refusal: StartRefused) =>
  Effect.gen(function*() {
    return yield* Config.withDefault(Config.String(name), "")
  }).pipe(Effect.mapError(() => refusal))

/** Parses one of `words`. */
export const oneOf = <const A extends ReadonlyArray<string>>(...words: A) => (text: string): A[number] | undefined =>
  words.find((word) => word === text)

/** Parses a decimal integer from `minimum` to `maximum`. */
export const integer = (minimum: number, maximum: number) => (text: string): number | undefined => {
  const value = /^[0-9]{1,9}$/.test(text) ? Number(text) : Number.NaN
  return value >= minimum && value <= maximum ? value : undefined
}

/** The cells of `CELLS`; undefined where it is not set. */
export const severalCells = Effect.gen(function*() {
  const text = yield* read("CELLS", new StartRefused({ message: "CELLS must be text" }))
  if (text === "") return undefined
  const cells = parseCells(text)
  return typeof cells === "string" ? yield* new StartRefused({ message: `CELLS must have ${cells}` }) : cells
})

/** Parses the address of a database. */
export const parseUrl = (text: string) =>
  /^postgres(ql)?:\/\//.test(text) && URL.canParse(text) ? Redacted.make(text) : undefined

/**
 * Fails where no connection can be made with the address of `DATABASE_URL`, whatever the server, and for what only an
 * address of `CELLS` may have: without it, the service would use another schema than the address says.
 */
export const requireUsable = (url: Redacted.Redacted): Effect.Effect<void, StartRefused> => {
  const address = new URL(Redacted.value(url))
  const ofCells = ["schema", "slots"].find((name) => address.searchParams.has(name))
  const fault = ofCells === undefined ? addressFault(address) : `no ${ofCells}, which is for an address of CELLS`
  return fault === undefined ? Effect.void : new StartRefused({ message: `DATABASE_URL must have ${fault}` })
}
