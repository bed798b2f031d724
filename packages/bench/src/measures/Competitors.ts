import { Effect, Redacted, type Scope } from "effect"
import { generateLoad, type LoadOptions } from "../Load.ts"
import { type Competitor, type InvalidRun, type Sample, type Size, verify } from "../Measure.ts"
import type { Checkouts } from "../Checkout.ts"
import type { OtherProcesses } from "../OtherProcesses.ts"
import type { Processes, Serving } from "../Processes.ts"
import { secretsKey } from "../Seed.ts"
import type { Server } from "../Server.ts"
import { cpuUsage } from "./CpuUsage.ts"

/** Variables of the service's processes over a database. Rate limits are off, because no peer has any. */
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
/** The part of the worker that turns spend events into rewards, as a process of its own. */
export const processor = "packages/bench/src/peers/serviceProcessor/main.ts"
/** The program of a peer. */
export const peer = (name: string): string => `packages/bench/src/peers/${name}/main.ts`

/** The response to a spend event that was stored now. */
export const accepted = { status: 202, body: "\"duplicate\":false" }

/** Connections of every load, unless a measure says otherwise. */
export const connections = 64

/** The servers of a competitor and the requests that they get. */
export interface Load extends Pick<LoadOptions, "next" | "expected"> {
  readonly name: string
  readonly serving: ReadonlyArray<Serving>
  /** {@link connections} when absent. */
  readonly connections?: number
}

/**
 * Puts servers under load for `millis`, and longer until `atLeast` requests were sent. Verifies every response and
 * returns the number of requests and the figures of one turn.
 */
export const load = Effect.fnUntraced(function*(options: Load, millis: number, atLeast: number) {
  const { expected, name, next, serving } = options
  const sending = { connections: options.connections ?? connections, next, expected }
  const before = yield* cpuUsage(serving)
  const baseUrls = serving.map(({ baseUrl }) => baseUrl)
  const result = yield* generateLoad({ baseUrls, millis, atLeast, ...sending })
  const after = yield* cpuUsage(serving)
  yield* verify(`${name}: wrong responses`, result.wrong, 0)
  const sample = {
    "requests/s": result.requests / result.seconds,
    "p50 ms": result.p50,
    "p99 ms": result.p99,
    "server CPU µs/request": (after.processes - before.processes) / result.requests,
    "PostgreSQL CPU µs/request": (after.postgres - before.postgres) / result.requests,
    "generator CPU µs/request": result.cpuMicros / result.requests
  } satisfies Sample
  return { requests: result.requests, sample }
})

/** A competitor whose turn is {@link load} for the size's `shortTurnMillis`; it is warmed up before this succeeds. */
export const underLoad = Effect.fnUntraced(function*(
  options: Load & {
    readonly size: Size
    /** Verifies what the servers stored, by the number of responses since their start. */
    readonly checked?: (requests: number) => Effect.Effect<void, InvalidRun>
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
  return { name: options.name, turn: () => turn(options.size.shortTurnMillis, 1) } satisfies Competitor<Server>
})

/** The services that a measure may use. */
export type Requirements = Server | Processes | OtherProcesses | Checkouts | Scope.Scope
