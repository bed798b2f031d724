import { Effect, Redacted, type Scope } from "effect"
import { type Drive, drive } from "../Load.ts"
import { type Contestant, type Sample, type Size, verify, type Void } from "../Measure.ts"
import type { Processes, Serving } from "../Processes.ts"
import { secretsKey } from "../Seed.ts"
import type { Server } from "../Server.ts"
import { used } from "./Used.ts"

/** Variables of the service's processes over a database; rate limits are off, since no peer has any. */
export const serviceEnvironment = (url: Redacted.Redacted): Readonly<Record<string, string>> => ({
  DATABASE_URL: Redacted.value(url),
  SECRETS_KEY: secretsKey,
  WEBHOOK_ALLOW_PRIVATE_NETWORK: "true",
  RATE_LIMIT_INGEST: "off",
  RATE_LIMIT_READ: "off",
  RATE_LIMIT_MANAGE: "off"
})

export const api = "packages/api/src/main.ts"
export const worker = "packages/worker/src/main.ts"
/** The worker's fiber that turns events into rewards, alone. */
export const processor = "packages/bench/src/peers/serviceProcessor/main.ts"
/** Where a peer's process begins. */
export const peer = (name: string): string => `packages/bench/src/peers/${name}/main.ts`

/** What says that a spend event was stored. */
export const accepted = { status: 202, body: "\"duplicate\":false" }

/** Connections that drive a server in every measure of requests. */
export const connections = 64

/** What a server is asked, and has to answer. */
export interface Load extends Pick<Drive, "next" | "expected"> {
  readonly name: string
  readonly serving: ReadonlyArray<Serving>
}

/** A server under load for so long, and beyond until so many requests are answered; all answers are verified. */
export const load = Effect.fnUntraced(function*(what: Load, millis: number, atLeast: number) {
  const { expected, name, next, serving } = what
  const before = yield* used(serving)
  const baseUrls = serving.map(({ baseUrl }) => baseUrl)
  const driven = yield* drive({ baseUrls, connections, millis, atLeast, next, expected })
  const after = yield* used(serving)
  yield* verify(`${name}: wrong answers`, driven.wrong, 0)
  const sample = {
    "requests/s": driven.requests / driven.seconds,
    "p50 ms": driven.p50,
    "p99 ms": driven.p99,
    "server CPU µs/request": (after.processes - before.processes) / driven.requests,
    "PostgreSQL CPU µs/request": (after.postgres - before.postgres) / driven.requests,
    "generator CPU µs/request": driven.cpuMicros / driven.requests
  } satisfies Sample
  return { requests: driven.requests, sample }
})

/** A server under load, a turn at a time; `checked` verifies what its answers promised. */
export const underLoad = Effect.fnUntraced(function*(
  options: Load & {
    readonly size: Size
    /** Given how many answers there were since the start. */
    readonly checked?: (requests: number) => Effect.Effect<void, Void>
  }
) {
  let answered = 0
  const turn = Effect.fnUntraced(function*(millis: number, atLeast: number) {
    const { requests, sample } = yield* load(options, millis, atLeast)
    answered += requests
    if (options.checked !== undefined) yield* options.checked(answered)
    return sample
  })
  yield* turn(options.size.warmUpMillis, options.size.warmUpRequests)
  return { name: options.name, turn: () => turn(options.size.turnMillis, 0) } satisfies Contestant<Server>
})

/** What every measure may use. */
export type Needs = Server | Processes | Scope.Scope
