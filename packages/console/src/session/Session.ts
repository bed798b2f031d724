import { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import { apiKeyForm } from "@card-rewards/domain/ApiKey"
import { Unauthorized } from "@card-rewards/domain/Errors"
import { Cause, Effect, Exit, Layer, Redacted } from "effect"
import { FetchHttpClient, HttpClientError } from "effect/http"
import { createContext, use } from "react"
import { navigate } from "wouter/use-hash-location"
import { machineMillis } from "./Machine.ts"

/** The typed client: in production, the operations under `sandbox` do not exist. */
export type Api = (typeof CardRewardsSandbox)["Service"]

/** The signed-in integrator's client and environment. */
export interface Session {
  readonly api: Api
  readonly environment: "sandbox" | "production"
  /** The key's last four characters, which mark it in the list of keys. */
  readonly last4: string
  /** Milliseconds to add to this machine's clock for the integrator's time. */
  readonly clockOffsetMillis: number
}

/** Short, because the user can retry. */
export const timeouts = { totalMillis: 6_000 }

/** The key is kept in this tab's session storage only; it is never part of an address or a log. */
const storageKey = "card-rewards.api-key"

export const storedKey = (): string | undefined => sessionStorage.getItem(storageKey) ?? undefined
export const storeKey = (apiKey: string): void => sessionStorage.setItem(storageKey, apiKey)
/** Forgets the key, and all else that the tab knows of the integrator: the address and the title may name a user. */
export const forgetKey = (): void => {
  sessionStorage.clear()
  navigate("/", { replace: true })
  document.title = "Card Rewards console"
}

/** Checks the key with the service and determines the environment. Fails with the service's own error. */
export const connect = (apiKey: string) =>
  Effect.gen(function* () {
    // a header could not hold every other text
    if (!apiKeyForm.test(apiKey)) return yield* new Unauthorized({ message: "The API key is malformed" })
    const api = yield* CardRewardsSandbox
    yield* api.programs.list()
    const offset = yield* Effect.catchIf(readClockOffset(api), isNotFound, () => Effect.succeed(undefined))
    return {
      api,
      environment: offset === undefined ? "production" : "sandbox",
      last4: apiKey.slice(-4),
      clockOffsetMillis: offset ?? 0
    } satisfies Session
  }).pipe(
    Effect.provide(
      CardRewardsSandbox.layer({
        baseUrl: location.origin,
        apiKey: Redacted.make(apiKey),
        timeouts
      }).pipe(Layer.provide(FetchHttpClient.layer))
    )
  )

/** Milliseconds by which the sandbox clock is ahead of this machine's clock. */
export const readClockOffset = (api: Api) => Effect.map(api.sandbox.clock(), ({ now }) => now - machineMillis())

/** Production has no sandbox routes and answers 404. */
const isNotFound = (error: unknown): boolean =>
  HttpClientError.isHttpClientError(error) && error.response?.status === 404

/** Runs an operation for React; the promise is rejected with the tagged error itself. */
export const run = async <A, E>(effect: Effect.Effect<A, E>, signal?: AbortSignal): Promise<A> => {
  const exit = await Effect.runPromiseExit(effect, signal === undefined ? {} : { signal })
  if (Exit.isSuccess(exit)) return exit.value
  throw Cause.squash(exit.cause)
}

export const SessionContext = createContext<Session | undefined>(undefined)

export const useSession = (): Session => {
  const session = use(SessionContext)
  if (session === undefined) throw new Error("useSession outside of a session")
  return session
}
