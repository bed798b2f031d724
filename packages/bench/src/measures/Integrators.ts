import { Effect } from "effect"
import { compare, type Measure, type Size, takeTurns } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests } from "../SpendEvents.ts"
import { backlog, verifyRows } from "./Backlog.ts"
import { accepted, api, type Requirements, serviceEnvironment, underLoad, worker } from "./Competitors.ts"

/** Whether the same work costs more when it is divided among many integrators. */
export const integrators: Measure<Requirements> = {
  name: "integrators",
  title: "One integrator, against 1,000 with the same work in total",
  method: "The same users and clearings belong to one integrator, or are divided evenly among 1,000. One worker " +
    "processes a backlog that appears in one commit; one api gets posts on 64 connections. Each has its own database.",
  run: Effect.fn("integrators")(function*(size: Size) {
    const count = Math.ceil(size.backlog / 2)
    const [one, many] = [yield* competitors(1, size, count), yield* competitors(size.integrators, size, count)]
    const processing = yield* takeTurns([one.processing, many.processing], size.rounds, { warmUp: true })
    const ingest = yield* takeTurns([yield* one.ingest, yield* many.ingest], size.rounds)
    const findings = [...processing, ...ingest]
    const target = { bound: "at least", value: 0.85 } as const
    return {
      findings,
      comparisons: [
        compare(findings, { of: many.processing.name, against: one.processing.name, metric: "events/s" }, target),
        compare(findings, { of: many.name, against: one.name, metric: "requests/s" }, target)
      ],
      remarks: []
    }
  }, Effect.scoped)
}

const competitors = Effect.fnUntraced(function*(integrators: number, size: Size, count: number) {
  const server = yield* Server
  const processes = yield* Processes
  const owner = integrators === 1 ? "one integrator" : `${integrators.toLocaleString("en-US")} integrators`
  const senders = { integrators, users: size.users }
  const fill = population({ ...senders, programs: 1, versions: 1 })
  const url = yield* server.database(fill)
  const running = [yield* processes.start({ entry: worker, env: serviceEnvironment(url) })]
  const name = `processing, ${owner}`
  const checked = (done: number) => verifyRows(url, name, "rewards", done)
  return {
    name: `ingest, ${owner}`,
    processing: backlog({ name, url, running, senders, count, checked }),
    ingest: Effect.gen(function*() {
      const name = `ingest, ${owner}`
      const url = yield* server.database(fill)
      const serving = [yield* processes.serve({ entry: api, env: serviceEnvironment(url) })]
      return yield* underLoad({
        name,
        size,
        serving,
        next: requests(senders, "a"),
        expected: accepted,
        checked: (answered) => verifyRows(url, name, "spend_events", answered)
      })
    })
  }
})
