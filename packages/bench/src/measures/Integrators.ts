import { Effect } from "effect"
import { compare, type Measure, type Size, takeShortTurns } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { type Population, population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests } from "../SpendEvents.ts"
import { backlog, verifyRows } from "./Backlog.ts"
import { accepted, api, type Requirements, serviceEnvironment, underLoad, worker } from "./Competitors.ts"

/** Whether the same work costs more when it is divided among many integrators. */
export const integrators: Measure<Requirements> = {
  name: "integrators",
  title: "One integrator, against 1,000 with the same work in total",
  method: "The same users and clearings belong to one integrator, or are divided evenly among 1,000. One worker " +
    "processes a backlog that appears in one commit; after the workers have ended, one api gets posts on 64 " +
    "connections. Each has its own database.",
  run: Effect.fn("integrators")(function*(size: Size) {
    const each = [1, size.integrators]
    const count = Math.ceil(size.backlog / 2)
    const processing = yield* Effect.scoped(Effect.gen(function*() {
      const competitors = yield* Effect.forEach(each, (integrators) => processingOf(integrators, size, count))
      return yield* takeShortTurns(competitors, size, { warmUp: true })
    }))
    const ingest = yield* Effect.scoped(Effect.gen(function*() {
      return yield* takeShortTurns(yield* Effect.forEach(each, (integrators) => ingestOf(integrators, size)), size)
    }))
    const findings = [...processing, ...ingest]
    const target = { bound: "at least", value: 0.85 } as const
    const compared = (work: string, metric: string) =>
      compare(findings, { of: nameOf(work, size.integrators), against: nameOf(work, 1), metric }, target)
    return {
      findings,
      comparisons: [compared("processing", "events/s"), compared("ingest", "requests/s")],
      remarks: []
    }
  })
}

const nameOf = (work: string, integrators: number): string =>
  `${work}, ${integrators === 1 ? "one integrator" : `${integrators.toLocaleString("en-US")} integrators`}`

const content = (integrators: number, { users }: Size): Population => ({ integrators, users, programs: 1, versions: 1 })

const processingOf = Effect.fnUntraced(function*(integrators: number, size: Size, count: number) {
  const server = yield* Server
  const processes = yield* Processes
  const url = yield* server.database(population(content(integrators, size)))
  const name = nameOf("processing", integrators)
  return backlog({
    name,
    url,
    running: [yield* processes.start({ entry: worker, env: serviceEnvironment(url) })],
    senders: { integrators, users: size.users },
    count,
    checked: (done) => verifyRows(url, name, "rewards", done)
  })
})

const ingestOf = Effect.fnUntraced(function*(integrators: number, size: Size) {
  const server = yield* Server
  const processes = yield* Processes
  const url = yield* server.database(population(content(integrators, size)))
  const name = nameOf("ingest", integrators)
  return yield* underLoad({
    name,
    size,
    serving: [yield* processes.serve({ entry: api, env: serviceEnvironment(url) })],
    next: requests({ integrators, users: size.users }, "a"),
    expected: accepted,
    checked: (answered) => verifyRows(url, name, "spend_events", answered)
  })
})
