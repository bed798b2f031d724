import * as Database from "@card-rewards/core/Database"
import { queuedEvents } from "@card-rewards/core/Processing/Segments"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type Checkout, Checkouts, own } from "../Checkout.ts"
import { compare, compareSum, type Measure, type Size, takeShortTurns, verify } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { Server } from "../Server.ts"
import { requests } from "../SpendEvents.ts"
import { accepted, api, peer, type Requirements, serviceEnvironment, underLoad } from "./Competitors.ts"
import { compareTelemetry, observed, startCollector } from "./Telemetry.ts"

const service = own.name
const fastify = "Fastify + pg"
const bare = "node:http + unnest"

/** Spend events over HTTP, each stored before its response. */
export const ingest: Measure<Requirements> = {
  name: "ingest",
  title: "`POST /v1/spend-events`, durable before the response",
  method: "One process each, 64 connections, new clearings of the users in turn. Fastify checks the key, the JSON " +
    "schema (ajv, `kind` as discriminator) and the clock, and stores with one prepared `INSERT … SELECT FROM users … " +
    "ON CONFLICT DO NOTHING`. The service also queues each event for its worker. node:http checks nothing and " +
    "inserts by `unnest` the posts that arrived during the previous insert. With telemetry on, the service exports " +
    "traces, metrics and logs by OTLP to a local collector stand-in, which counts them.",
  run: Effect.fn("ingest")(function*(size: Size) {
    const processes = yield* Processes
    const server = yield* Server
    const senders = { integrators: 1, users: size.users }
    const checkouts = yield* Checkouts
    const content = { ...senders, programs: 1, versions: 1 }
    const collector = yield* startCollector
    const competitor = Effect.fnUntraced(function*(
      name: string,
      entry: string,
      options: { readonly checkout?: Checkout; readonly isQueued?: boolean; readonly telemetry?: typeof collector } = {}
    ) {
      const { checkout = own, isQueued = false, telemetry } = options
      const url = yield* server.database(checkout.population(content))
      const env = { ...serviceEnvironment(url), ...telemetry?.env }
      const serving = yield* processes.serve({ root: checkout.root, entry, env })
      const spans = telemetry?.spansOf(name) ?? (() => Effect.void)
      const load = { name, serving: [serving], next: requests(senders, "i"), expected: accepted }
      const checked = (answered: number) =>
        Effect.andThen(verifyStored(name, url, answered, isQueued), spans(answered))
      return { ...yield* underLoad({ ...load, size, checked }), serving }
    })
    const traced = yield* competitor(observed(service), api, { isQueued: true, telemetry: collector })
    const findings = yield* takeShortTurns([
      yield* competitor(service, api, { isQueued: true }),
      traced,
      ...yield* Effect.forEach(checkouts, (checkout) => competitor(checkout.name, api, { checkout })),
      yield* competitor(fastify, peer("fastify")),
      yield* competitor(bare, peer("nodeHttp"))
    ], size)
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: fastify, metric: "requests/s" }, { bound: "at least", value: 2.2 }),
        compare(findings, { of: service, against: fastify, metric: "p99 ms" }, { bound: "at most", value: 0.8 }),
        compareSum(findings, {
          of: service,
          against: fastify,
          name: "CPU µs/request",
          metrics: ["server CPU µs/request", "PostgreSQL CPU µs/request"]
        }),
        compare(findings, { of: service, against: bare, metric: "requests/s" }),
        compareTelemetry(findings, service),
        ...checkouts.map(({ name }) => compare(findings, { of: service, against: name, metric: "requests/s" }))
      ],
      remarks: [yield* collector.verifyMetrics(traced.name)]
    }
  }, Effect.scoped)
}

/** Verifies that every event has its row, and at the service is in the queue. */
export const verifyStored = Effect.fnUntraced(function*(
  name: string,
  url: Redacted.Redacted,
  answered: number,
  isQueued: boolean
) {
  const counts = yield* Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ events: number; queued: number }>`
      SELECT (SELECT count(*)::int FROM spend_events) AS events,
        (SELECT count(*)::int FROM ${sql.literal(queuedEvents)} q) AS queued`
    return row
  }).pipe(Effect.provide(Database.layer({ url, poolSize: 1, applicationName: "card-rewards bench" })), Effect.orDie)
  yield* verify(`${name}: stored events`, counts?.events ?? 0, answered)
  if (isQueued) yield* verify(`${name}: queued events`, counts?.queued ?? 0, answered)
})
