import * as Database from "@card-rewards/core/Database"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { TransactionId, UserId } from "@card-rewards/domain/Ids"
import { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { Context, Effect, Layer, type Redacted, Schema } from "effect"
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
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { clearings } from "../SpendEvents.ts"
import { verifyRows } from "./Backlog.ts"
import { connect } from "./Connection.ts"
import type { Needs } from "./Contestants.ts"

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
  title: "Rows per second of ingest's multi-row insert, against the best `unnest` driven straight by pg",
  method: "What stands behind the handler of `POST /v1/spend-events`, without HTTP: 1,000 posts at once that are gathered, " +
    "compared with what is known, checked against enrollment and clock, stored and queued. Against it the same rows into the " +
    "same table with its indexes, by `unnest` with `ON CONFLICT DO NOTHING`, in several sizes and numbers of connections; " +
    "the best of them is the limit. There nothing is compared, checked or queued.",
  run: Effect.fn("insert")(function*(size: Size) {
    const server = yield* Server
    const senders = { integrators: 1, users: size.users }
    const fill = population({ ...senders, programs: 1, versions: 1 })
    const contestants: Array<Contestant<Needs>> = [
      yield* ingest({ url: yield* server.database(fill), users: size.users, millis: size.turnMillis })
    ]
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

/** Posts that wait for their answers at the same time. */
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
      const post = Effect.suspend(() => submit(event())).pipe(
        Effect.map(({ duplicate }) => void (inserted += duplicate ? 0 : 1)),
        Effect.repeat({ while: () => performance.now() - startedAt < options.millis }),
        Effect.mapError((error) => new Void({ message: `${service}: ${error}` }))
      )
      yield* Effect.all(Array.from({ length: posts }, () => post), { concurrency: "unbounded", discard: true })
      const seconds = (performance.now() - startedAt) / 1_000
      total += inserted
      yield* verifyRows(options.url, service, "spend_events", total)
      return { "rows/s": inserted / seconds }
    })
  } satisfies Contestant<Needs>
})

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
