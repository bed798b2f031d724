import { Effect, Redacted, type Scope } from "effect"
import { type Drive, drive } from "../Load.ts"
import { type Contestant, type Sample, type Size, verify, type Void } from "../Measure.ts"
import type { Processes, Running, Serving } from "../Processes.ts"
import { secretsKey } from "../Seed.ts"
import { Server } from "../Server.ts"

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
/** Where a peer's process begins. */
export const peer = (name: string): string => `packages/bench/src/peers/${name}/main.ts`

/** Connections that drive a server in every measure of requests. */
export const connections = 64

/** A server under load for a turn; `checked` verifies what its answers promised. */
export const underLoad = Effect.fnUntraced(function*(options: {
  readonly name: string
  readonly size: Size
  readonly serving: ReadonlyArray<Serving>
  readonly next: Drive["next"]
  readonly expected: Drive["expected"]
  /** Given how many answers there were since the start. */
  readonly checked?: (requests: number) => Effect.Effect<void, Void>
}) {
  const server = yield* Server
  let answered = 0
  const turn = Effect.fnUntraced(function*(millis: number, atLeast: number) {
    const before = yield* used(options.serving, server)
    const driven = yield* drive({
      baseUrls: options.serving.map(({ baseUrl }) => baseUrl),
      connections,
      millis,
      atLeast,
      next: options.next,
      expected: options.expected
    })
    const after = yield* used(options.serving, server)
    yield* verify(`${options.name}: wrong answers`, driven.wrong, 0)
    answered += driven.requests
    if (options.checked !== undefined) yield* options.checked(answered)
    return {
      "requests/s": driven.requests / driven.seconds,
      "p50 ms": driven.p50,
      "p99 ms": driven.p99,
      "server CPU µs/request": (after.processes - before.processes) / driven.requests,
      "PostgreSQL CPU µs/request": (after.postgres - before.postgres) / driven.requests,
      "generator CPU µs/request": driven.cpuMicros / driven.requests
    } satisfies Sample
  })
  yield* turn(options.size.warmUpMillis, options.size.warmUpRequests)
  return { name: options.name, turn: () => turn(options.size.turnMillis, 0) } satisfies Contestant
})

const used = Effect.fnUntraced(function*(running: ReadonlyArray<Running>, server: Server["Service"]) {
  const each = yield* Effect.forEach(running, ({ cpuMicros }) => cpuMicros)
  return { processes: each.reduce((sum, micros) => sum + micros, 0), postgres: yield* server.cpuMicros }
})

/** What every measure may use. */
export type Needs = Server | Processes | Scope.Scope
