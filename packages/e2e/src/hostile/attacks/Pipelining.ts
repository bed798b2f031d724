import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Sockets from "../Sockets.ts"

const connections = 20
/** About what the service answers of the cheapest: without a bound the attacker would take a core for itself. */
const perSecond = 20_000

const keyed = (apiKey: string) => Sockets.request("GET", "/v1/programs", { "x-api-key": apiKey })

/** What is pipelined without end, by the number of the request. */
const requests = {
  health: () => Sockets.request("GET", "/health"),
  "no key": () => Sockets.request("GET", "/v1/programs"),
  "unknown keys": (index: number) => keyed(`service_sk_sandbox_${index.toString(16).padStart(64, "0")}`),
  "malformed keys": (index: number) => keyed(`service_sk_sandbox_${index}`)
} as const

const kinds = Object.values(requests)

interface Size {
  readonly what: string
  readonly millis: number
  readonly request: (index: number) => string
}

const fullMillis = 20_000

const make = (options: { readonly name: string; readonly short?: Size; readonly full: Size }): Attack.Attack =>
  Attack.make({
    ...options,
    what: ({ what }) => `${connections} connections that pipeline ${what}`,
    maxSeconds: 60,
    prepare: ({ service }, { millis, request }) =>
      Effect.succeed(Effect.scoped(Effect.gen(function*() {
        const sockets = yield* Sockets.make(service)
        const pipeline = Sockets.pipeline(sockets, { connections, perSecond, millis }, request)
        return Attack.outcome(...(yield* Sockets.figures(sockets, pipeline)))
      })))
  })

const full = (kind: keyof typeof requests): Size => ({
  what: kind === "health" ? "/health" : `requests with ${kind}`,
  millis: fullMillis,
  request: requests[kind]
})

/** 50 requests are written at a time: so many of one kind follow one another. */
const mixed: Size = {
  what: "/health and requests with no key, unknown keys, malformed keys",
  millis: 1_000,
  request: (index) => kinds[Math.floor(index / Sockets.pipelined) % kinds.length]?.(index) ?? ""
}

export const pipelining: ReadonlyArray<Attack.Attack> = [
  make({ name: "pipelined-health", short: mixed, full: full("health") }),
  make({ name: "pipelined-no-key", full: full("no key") }),
  make({ name: "pipelined-unknown-keys", full: full("unknown keys") }),
  make({ name: "pipelined-malformed-keys", full: full("malformed keys") })
]

/** Connections that pipeline the largest answer that needs no key, and read nothing. */
export const unread = Attack.make({
  name: "unread-answers",
  what: ({ sockets }: { readonly sockets: number; readonly millis: number }) =>
    `${Attack.grouped(sockets)} connections that pipeline /openapi.json without a key and read no answer`,
  full: { sockets: 1_000, millis: fullMillis },
  maxSeconds: 60,
  prepare: ({ service }, { millis, sockets: count }) =>
    Effect.succeed(Effect.scoped(Effect.gen(function*() {
      const sockets = yield* Sockets.make(service)
      const request = () => Sockets.request("GET", "/openapi.json")
      const size = { connections: count, perSecond, millis }
      const pipeline = Sockets.pipeline(sockets, size, request, { readsAnswers: false })
      return Attack.outcome(...(yield* Sockets.figures(sockets, pipeline)))
    })))
})
