import { Effect, type Redacted } from "effect"
import { performance } from "node:perf_hooks"
import {
  compare,
  type Contestant,
  type Finding,
  type Measure,
  median,
  type Size,
  takeTurns,
  valuesOf,
  Void
} from "../Measure.ts"
import { insertMany, rowOf, transpose } from "../peers/SpendEvent.ts"
import { Processes } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { clearings, requests } from "../SpendEvents.ts"
import { verifyRows } from "./Backlog.ts"
import { connect } from "./Connection.ts"
import { accepted, api, type Needs, serviceEnvironment, underLoad } from "./Contestants.ts"

const service = "card-rewards"

/** Rows of a statement and statements at once; the best of these counts. */
const variants = [
  { rows: 100, clients: 4 },
  { rows: 500, clients: 2 },
  { rows: 1_000, clients: 1 },
  { rows: 1_000, clients: 4 }
]

/** What of a server's insert rate the service's ingest reaches. */
export const insert: Measure<Needs> = {
  name: "insert",
  title: "Rows per second of ingest, against multi-row inserts driven straight by pg",
  method: "The same rows into the same table with its indexes, by `unnest` with `ON CONFLICT DO NOTHING`, in several " +
    "sizes and numbers of connections; the best of them is the limit. Nothing is parsed, checked, looked up or queued.",
  run: Effect.fn("insert")(function*(size: Size) {
    const server = yield* Server
    const processes = yield* Processes
    const senders = { integrators: 1, users: size.users }
    const fill = population({ ...senders, programs: 1, versions: 1 })
    const url = yield* server.database(fill)
    const serving = yield* processes.serve({ entry: api, env: serviceEnvironment(url) })
    const ingest = yield* underLoad({
      name: service,
      size,
      serving: [serving],
      next: requests(senders, "a"),
      expected: accepted,
      checked: (answered) => verifyRows(url, service, "spend_events", answered)
    })
    const contestants = [
      { ...ingest, turn: () => Effect.map(ingest.turn(), (sample) => ({ "rows/s": sample["requests/s"] })) }
    ] as Array<Contestant<Needs>>
    for (const { clients, rows } of variants) {
      const name = `unnest, ${rows} rows, ${clients} connections`
      const url = yield* server.database(fill)
      contestants.push(yield* unnest({ name, rows, clients, url, users: size.users, millis: size.turnMillis }))
    }
    const findings = yield* takeTurns(contestants, size.rounds)
    const best = bestOf(findings.slice(1))
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: best, metric: "rows/s" }, { bound: "at least", value: 0.25 })
      ],
      remarks: []
    }
  }, Effect.scoped)
}

const bestOf = (findings: ReadonlyArray<Finding>): string =>
  findings.toSorted((a, b) => rate(b) - rate(a))[0]?.contestant ?? ""

const rate = (finding: Finding): number => median(valuesOf([finding], finding.contestant, "rows/s"))

const unnest = Effect.fnUntraced(function*(options: {
  readonly name: string
  readonly rows: number
  readonly clients: number
  readonly url: Redacted.Redacted
  readonly users: number
  readonly millis: number
}) {
  const clients = yield* Effect.forEach(Array.from({ length: options.clients }), () => connect(options.url))
  const next = clearings({ integrators: 1, users: options.users }, "u")
  let total = 0
  return {
    name: options.name,
    turn: Effect.fnUntraced(function*() {
      const startedAt = performance.now()
      let inserted = 0
      yield* Effect.tryPromise({
        try: () =>
          Promise.all(clients.map(async (client) => {
            while (performance.now() - startedAt < options.millis) {
              const rows = Array.from({ length: options.rows }, () => rowOf(next()))
              const result = await client.query({ ...insertMany, values: [...transpose(rows)] })
              inserted += result.rowCount ?? 0
            }
          })),
        catch: (error) => new Void({ message: `${options.name}: ${error}` })
      })
      const seconds = (performance.now() - startedAt) / 1_000
      total += inserted
      yield* verifyRows(options.url, options.name, "spend_events", total)
      return { "rows/s": inserted / seconds }
    })
  } satisfies Contestant<Needs>
})
