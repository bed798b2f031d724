import * as Database from "@card-rewards/core/Database"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { compare, type Measure, type Size, takeTurns, verify } from "../Measure.ts"
import { Processes, type Start } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests } from "../SpendEvents.ts"
import { accepted, api, type Needs, peer, serviceEnvironment, underLoad } from "./Contestants.ts"

const service = "card-rewards"
const fastify = "Fastify + pg"
const limit = "node:http + unnest"

/** Events in, each durable before its answer. */
export const ingest: Measure<Needs> = {
  name: "ingest",
  title: "`POST /v1/spend-events`, durable before the answer",
  method: "One process each, 64 connections, new clearings of users in turn. Fastify checks the key, the JSON schema " +
    "(ajv, `kind` as discriminator) and the clock, and stores with one prepared `INSERT … SELECT FROM users … ON CONFLICT " +
    "DO NOTHING`. The service also queues each event for its worker. The limit checks nothing and inserts what has " +
    "gathered by `unnest`.",
  run: Effect.fn("ingest")(function*(size: Size) {
    const processes = yield* Processes
    const server = yield* Server
    const senders = { integrators: 1, users: size.users }
    const fill = population({ ...senders, programs: 1, versions: 1 })
    const contestant = Effect.fnUntraced(function*(name: string, entry: string, prefix: string) {
      const url = yield* server.database(fill)
      const serving = yield* processes.serve({ entry, env: serviceEnvironment(url) })
      return yield* underLoad({
        name,
        size,
        serving: [serving],
        next: requests(senders, prefix),
        expected: accepted,
        checked: (answered) => stored(name, url, answered, name === service)
      })
    })
    const findings = yield* takeTurns([
      yield* contestant(service, api, "a"),
      yield* contestant(fastify, peer("fastify"), "b"),
      yield* contestant(limit, peer("nodeHttp"), "c")
    ], size.rounds)
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: fastify, metric: "requests/s" }, { bound: "at least", value: 1.5 }),
        compare(findings, { of: service, against: fastify, metric: "p99 ms" }, { bound: "at most", value: 1 }),
        compare(findings, { of: service, against: limit, metric: "requests/s" })
      ],
      remarks: []
    }
  }, Effect.scoped)
}

/** The same without a database. */
export const http: Measure<Needs> = {
  name: "http",
  title: "The same, HTTP and validation only",
  method: "As above, with nothing behind the handlers: the service's own keys, decoding, routing and encoding against " +
    "Fastify's, and against `node:http`, which parses the body and answers.",
  run: Effect.fn("http")(function*(size: Size) {
    const processes = yield* Processes
    const senders = { integrators: 1, users: size.users }
    const server = yield* Server
    const url = yield* server.database(population({ ...senders, programs: 1, versions: 1 }))
    const contestant = Effect.fnUntraced(function*(name: string, start: Start) {
      const serving = yield* processes.serve(start)
      return yield* underLoad({ name, size, serving: [serving], next: requests(senders, "h"), expected: accepted })
    })
    const findings = yield* takeTurns([
      yield* contestant(service, { entry: peer("serviceHttpOnly"), env: serviceEnvironment(url) }),
      yield* contestant("Fastify", { entry: peer("fastify") }),
      yield* contestant("node:http", { entry: peer("nodeHttp") })
    ], size.rounds)
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: "Fastify", metric: "requests/s" }, {
          bound: "at least",
          value: 0.45
        }),
        compare(findings, { of: service, against: "node:http", metric: "requests/s" })
      ],
      remarks: []
    }
  }, Effect.scoped)
}

/** Every answer stands for a row, and for the service for a place in the queue. */
const stored = Effect.fnUntraced(function*(name: string, url: Redacted.Redacted, answered: number, isQueued: boolean) {
  const counts = yield* Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ events: number; queued: number }>`
      SELECT (SELECT count(*)::int FROM spend_events) AS events,
        (SELECT count(*)::int FROM spend_event_queue) AS queued`
    return row
  }).pipe(Effect.provide(Database.layer({ url, poolSize: 1, applicationName: "card-rewards bench" })), Effect.orDie)
  yield* verify(`${name}: stored events`, counts?.events ?? 0, answered)
  if (isQueued) yield* verify(`${name}: queued events`, counts?.queued ?? 0, answered)
})
