import { Effect } from "effect"
import { Checkouts, own } from "../Checkout.ts"
import { compare, type InvalidRun, type Measure, type Size, takeShortTurns } from "../Measure.ts"
import { Processes, type Program } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests } from "../SpendEvents.ts"
import { accepted, peer, type Requirements, serviceEnvironment, underLoad } from "./Competitors.ts"
import { compareTelemetry, observed, startCollector } from "./Telemetry.ts"

const service = own.name
const fastify = "Fastify"
const bare = "node:http"

/** The HTTP part of ingest, without a database. */
export const http: Measure<Requirements> = {
  name: "http",
  title: "The same, HTTP and validation only",
  method: "As above, but nothing is stored: the service's API keys, decoding, routing and encoding, against " +
    "Fastify's, and against `node:http`, which parses the body and responds.",
  run: Effect.fn("http")(function*(size: Size) {
    const processes = yield* Processes
    const server = yield* Server
    const senders = { integrators: 1, users: size.users }
    const checkouts = yield* Checkouts
    const content = { ...senders, programs: 1, versions: 1 }
    const url = yield* server.database(population(content))
    const collector = yield* startCollector
    const env = serviceEnvironment(url)
    const program = { entry: peer("serviceHttpOnly"), env }
    const competitor = Effect.fnUntraced(function*(
      name: string,
      program: Program,
      checked?: (requests: number) => Effect.Effect<void, InvalidRun>
    ) {
      const serving = yield* processes.serve(program)
      const load = { name, size, serving: [serving], next: requests(senders, "h"), expected: accepted }
      return { ...yield* underLoad(checked === undefined ? load : { ...load, checked }), serving }
    })
    const traced = yield* competitor(
      observed(service),
      { ...program, env: { ...env, ...collector.env } },
      collector.spansOf(observed(service))
    )
    const findings = yield* takeShortTurns([
      yield* competitor(service, program),
      traced,
      ...yield* Effect.forEach(checkouts, (checkout) =>
        Effect.flatMap(server.database(checkout.population(content)), (url) =>
          competitor(checkout.name, { ...program, root: checkout.root, env: serviceEnvironment(url) }))),
      yield* competitor(fastify, { entry: peer("fastify") }),
      yield* competitor(bare, { entry: peer("nodeHttp") })
    ], size)
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: fastify, metric: "requests/s" }, { bound: "at least", value: 0.45 }),
        compare(findings, { of: service, against: bare, metric: "requests/s" }),
        compareTelemetry(findings, service),
        ...checkouts.map(({ name }) => compare(findings, { of: service, against: name, metric: "requests/s" }))
      ],
      remarks: [yield* collector.verifyMetrics(traced.name)]
    }
  }, Effect.scoped)
}
