import { Effect } from "effect"
import { own } from "../Checkout.ts"
import { compare, type Measure, type Sample, type Size, takeShortTurns } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { Server } from "../Server.ts"
import { batches, requests } from "../SpendEvents.ts"
import { accepted, api, type Requirements, serviceEnvironment, underLoad } from "./Competitors.ts"
import { verifyStored } from "./Ingest.ts"

const single = "single posts"
const batched = "batches of 100"

const batchSize = 100
/** The events of one integrator that may wait are 2,500. */
const batchConnections = 16

/** Spend events in batches, and one by one. */
export const batchIngest: Measure<Requirements> = {
  name: "batches",
  title: "`POST /v1/spend-events/batch`, durable before the response",
  method: `One api and a database each. Single posts on 64 connections, batches of ${batchSize} on ` +
    `${batchConnections}: new clearings of the users in turn, of one integrator.`,
  run: Effect.fn("batches")(function*(size: Size) {
    const processes = yield* Processes
    const server = yield* Server
    const senders = { integrators: 1, users: size.users }
    const competitor = Effect.fnUntraced(function*(name: string, events: number) {
      const url = yield* server.database(own.population({ ...senders, programs: 1, versions: 1 }))
      const serving = [yield* processes.serve({ entry: api, env: serviceEnvironment(url) })]
      const checked = (answered: number) => verifyStored(name, url, answered * events, true)
      const load = events === 1
        ? { next: requests(senders, "b"), expected: accepted }
        : {
          next: batches(size.users, "b", events),
          expected: { status: 200, body: "\"duplicate\":false" },
          connections: batchConnections
        }
      const sized = { ...size, warmUpRequests: Math.ceil(size.warmUpRequests / events) }
      const { turn } = yield* underLoad({ ...load, name, serving, size: sized, checked })
      return { name, turn: () => Effect.map(turn(), perEvent(events)) }
    })
    const competitors = [yield* competitor(single, 1), yield* competitor(batched, batchSize)]
    const findings = yield* takeShortTurns(competitors, size)
    const target = { bound: "at least", value: 4 } as const
    return {
      findings,
      comparisons: [compare(findings, { of: batched, against: single, metric: "events/s" }, target)],
      remarks: []
    }
  }, Effect.scoped)
}

const perEvent = (events: number) => (sample: Sample): Sample => ({
  "events/s": events * (sample["requests/s"] ?? 0),
  "p50 ms": sample["p50 ms"] ?? 0,
  "p99 ms": sample["p99 ms"] ?? 0,
  "server CPU µs/event": (sample["server CPU µs/request"] ?? 0) / events,
  "PostgreSQL CPU µs/event": (sample["PostgreSQL CPU µs/request"] ?? 0) / events,
  "generator CPU µs/event": (sample["generator CPU µs/request"] ?? 0) / events
})
