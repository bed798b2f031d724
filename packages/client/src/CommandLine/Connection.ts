/** The flags of every command that say where the service is, and who calls it. */
import { apiKeyForm } from "@card-rewards/domain/ApiKey"
import { Config, Effect, Option, Redacted } from "effect"
import { Flag } from "effect/cli"
import { Misused } from "./Exit.ts"

const baseUrl = Flag.String("base-url").pipe(
  Flag.withDescription("The service's address; by default CARD_REWARDS_BASE_URL, or http://127.0.0.1:3000"),
  Flag.withFallbackConfig(Config.String("CARD_REWARDS_BASE_URL")),
  Flag.withDefault("http://127.0.0.1:3000")
)

const apiKey = Flag.Redacted("api-key").pipe(
  Flag.withDescription("The API key; by default CARD_REWARDS_API_KEY, which other users of this machine cannot see"),
  Flag.withFallbackConfig(Config.Redacted("CARD_REWARDS_API_KEY")),
  Flag.optional
)

/** `--base-url` and `--api-key`, or the environment. */
export const connectionFlags = { baseUrl, apiKey }

/** Where the service is, and the integrator's key. */
export interface Connection {
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted
  readonly environment: "sandbox" | "live"
}

/** Checks the flags. Fails with `Misused`, whose message does not repeat the key. */
export const connectionOf = Effect.fnUntraced(function*(
  flags: { readonly baseUrl: string; readonly apiKey: Option.Option<Redacted.Redacted> }
): Effect.fn.Return<Connection, Misused> {
  const { href, search } = yield* httpUrl("--base-url", flags.baseUrl)
  if (search !== "") return yield* new Misused({ message: "--base-url must have no query" })
  if (Option.isNone(flags.apiKey)) {
    return yield* new Misused({ message: "An API key is missing: set CARD_REWARDS_API_KEY or give --api-key" })
  }
  const environment = apiKeyForm.exec(Redacted.value(flags.apiKey.value))?.[1]
  if (environment !== "sandbox" && environment !== "live") {
    // without a space after service_sk_ the line would be masked, as if it had a key
    return yield* new Misused({
      message: "The API key must be service_sk_ followed by sandbox_ or live_ and 64 hex digits"
    })
  }
  return { baseUrl: href.replace(/\/+$/, ""), apiKey: flags.apiKey.value, environment }
})

/** A URL of a flag; without a scheme it is `http`. Fails with `Misused`, whose message does not repeat the URL. */
export const httpUrl = Effect.fnUntraced(function*(flag: string, text: string): Effect.fn.Return<URL, Misused> {
  const withScheme = text.includes("://") ? text : `http://${text}`
  const url = URL.canParse(withScheme) ? new URL(withScheme) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || `${url.username}${url.password}${url.hash}` !== "") {
    return yield* new Misused({
      message: `${flag} must be an http or https URL without credentials and fragment, such as http://localhost:8080/`
    })
  }
  return url
})
