import * as Database from "@card-rewards/core/Database"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { TransactionId, UserId } from "@card-rewards/domain/Ids"
import { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { Context, Effect, Layer, type Redacted, Schema } from "effect"
import { performance } from "node:perf_hooks"
import {
  compare,
  type Competitor,
  type Finding,
  InvalidRun,
  type Measure,
  median,
  type Size,
  takeShortTurns,
  valuesOf
} from "../Measure.ts"
import { insertMany, rowOf, transpose } from "../peers/SpendEvent.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { clearings } from "../SpendEvents.ts"
import { verifyRows } from "./Backlog.ts"
import { connect } from "./Connection.ts"
import type { Requirements } from "./Competitors.ts"

const service = "card-rewards"

/** Rows per statement and connections at a time; the fastest of these counts. */
const variants = [
  { rows: 100, clients: 4 },
  { rows: 500, clients: 2 },
  { rows: 1_000, clients: 1 },
  { rows: 1_000, clients: 4 }
]

/** The insert rate of ingest, compared with the best that PostgreSQL does with the same rows. */
export const insert: Measure<Requirements> = {
  name: "insert",
  title: "Rows per second of ingest's multi-row insert, against the best `unnest` by pg alone",
  method: "The part of `POST /v1/spend-events` behind its handler, without HTTP: 1,000 posts at a time are batched, " +
    "compared with stored events, checked against enrollment and clock, stored and queued. Against it the same rows " +
    "into the same table with its indexes, by `unnest`, with several numbers of rows and connections; the ratio " +
    "is to the fastest of them. They compare, check and queue nothing.",
  run: Effect.fn("insert")(function*(size: Size) {
    const server = yield* Server
    const senders = { integrators: 1, users: size.users }
    const fill = population({ ...senders, programs: 1, versions: 1 })
    const competitors: Array<Competitor<Requirements>> = [
      yield* ingest({ url: yield* server.database(fill), users: size.users, millis: size.shortTurnMillis })
    ]
    for (const { clients, rows } of variants) {
      const name = `unnest, ${rows} rows, ${clients} connections`
      const url = yield* server.database(fill)
      competitors.push(yield* unnest({ name, rows, clients, url, users: size.users, millis: size.shortTurnMillis }))
    }
    const findings = yield* takeShortTurns(competitors, size, { warmUp: true })
    const best = bestOf(findings.slice(1))
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: best, metric: "rows/s" }, { bound: "at least", value: 0.5 })
      ],
      remarks: []
    }
  }, Effect.scoped)
}

/** Posts in flight at a time. */
const posts = 1_000

const ingest = Effect.fnUntraced(function*(options: {
  readonly url: Redacted.Redacted
  readonly users: number
  readonly millis: number
}) {
  const database = Database.layer({ url: options.url, poolSize: 10, applicationName: "card-rewards bench" })
  const services = yield* Layer.build(SpendEvents.layer.pipe(Layer.provide(database), Layer.orDie))
  const { submit } = Context.get(services, SpendEvents)
  const next = clearings({ integrators: 1, users: options.users }, "a")
  const decoded = Schema.decodeUnknownSync(SpendEvent)(next())
  const event = (): SpendEvent => {
    const { externalTransactionId, userId } = next()
    return {
      ...decoded,
      userId: UserId.make(userId, { disableChecks: true }),
      externalTransactionId: TransactionId.make(externalTransactionId, { disableChecks: true })
    }
  }
  let total = 0
  return {
    name: service,
    turn: Effect.fnUntraced(function*() {
      const startedAt = performance.now()
      let inserted = 0
      const post = Effect.whileLoop({
        while: () => performance.now() - startedAt < options.millis,
        body: () => submit(event()),
        step: ({ duplicate }) => void (inserted += duplicate ? 0 : 1)
      }).pipe(Effect.mapError((error) => new InvalidRun({ message: `${service}: ${error}` })))
      yield* Effect.all(Array.from({ length: posts }, () => post), { concurrency: "unbounded", discard: true })
      const seconds = (performance.now() - startedAt) / 1_000
      total += inserted
      yield* verifyRows(options.url, service, "spend_events", total)
      return { "rows/s": inserted / seconds }
    })
  } satisfies Competitor<Requirements>
})

const bestOf = (findings: ReadonlyArray<Finding>): string =>
  findings.toSorted((a, b) => rate(b) - rate(a))[0]?.competitor ?? ""

const rate = (finding: Finding): number => median(valuesOf([finding], finding.competitor, "rows/s"))

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
        catch: (error) => new InvalidRun({ message: `${options.name}: ${error}` })
      })
      const seconds = (performance.now() - startedAt) / 1_000
      total += inserted
      yield* verifyRows(options.url, options.name, "spend_events", total)
      return { "rows/s": inserted / seconds }
    })
  } satisfies Competitor<Requirements>
})
