import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { compare, formatFigure, type Measure, type Sample, type Size, takeTurns } from "../Measure.ts"
import { population, userOf } from "../Seed.ts"
import { requests } from "../SpendEvents.ts"
import { onDatabase, verifyRows } from "./Backlog.ts"
import type { Requirements } from "./Competitors.ts"
import { execute } from "./Connection.ts"
import { costOf, costOfEvent, startMeasured } from "./Costs.ts"

/** Rewards on a page; the users whose pages are read have as many from the first step on. */
const pageSize = 50

/** The work of a turn, by the stored events of the first step. */
const postsOf = (first: number) => Math.ceil(first / 5)
const readsOf = (first: number) => Math.ceil(0.3 * first)
/** Reads of the warm-up turn for each read of a turn that counts. */
const warmUpReads = 2

/** Events that are stored before the worker is waited for, so that the queue stays short. */
const fillSize = 500_000

/** Whether work costs more when more is stored. */
export const growth: Measure<Requirements> = {
  name: "growth",
  title: "An event, a post and a read, as more is stored",
  method: "One integrator with 50 programs of 100 versions and 20,000 users; all stored events were processed by the " +
    "worker. Each step has its own database, api and worker, and the steps take turns. In a turn 2,000 clearings are " +
    "posted while a lock keeps the worker from their lanes, and are then processed; then 3,000 balances, pages of 50 " +
    "rewards and first pages of 50 events are read. Every fourth user posts, and 100 users with 50 rewards read, so " +
    "that each step has the same work to do. Before the turns the tables are vacuumed, a checkpoint is made, and " +
    "each user that posts gets an event: the first change of a page after a checkpoint costs more, and a small table " +
    "has few pages. Cost is the CPU time of the service and of PostgreSQL together.",
  run: Effect.fn("growth")(function*(size: Size) {
    const steps = yield* Effect.forEach(size.growth, (step) => prepare(size, step))
    for (const { vacuumed } of steps) yield* vacuumed
    // a checkpoint covers all databases of the server
    yield* steps[0]?.checkpoint ?? Effect.void
    for (const { touched } of steps) yield* touched
    const bytes = yield* Effect.forEach(steps, ({ url }) => databaseBytes(url))
    const findings = yield* takeTurns(steps, size.rounds, { warmUp: true })
    for (const { verified } of steps) yield* verified
    const [first = 0, last = 0] = [size.growth[0], size.growth.at(-1)]
    const bytesPerEvent = ((bytes.at(-1) ?? 0) - (bytes[0] ?? 0)) / (last - first)
    const costs = ["CPU µs/event", "CPU µs/post", "CPU µs/balance", "CPU µs/page of rewards", "CPU µs/page of events"]
    const target = { bound: "at most", value: 1.15 } as const
    return {
      findings,
      comparisons: [
        compare(findings, { of: nameOf(first), against: nameOf(last), metric: "events/s" }, target),
        ...costs.map((metric) => compare(findings, { of: nameOf(last), against: nameOf(first), metric }, target))
      ],
      remarks: [
        `A stored event and all that follows from it take ${formatFigure(bytesPerEvent)} bytes of tables and indexes.`
      ]
    }
  }, Effect.scoped)
}

const nameOf = (step: number): string => `${step.toLocaleString("en-US")} stored`

/** The service over a database with this many stored events, without those that `touched` adds. */
const prepare = Effect.fnUntraced(function*(size: Size, step: number) {
  const { growth: [first = 0], programs, users, versions } = size
  const senders = { integrators: 1, users }
  const half = Math.floor(first / 2)
  const everyReader = Math.floor(users / Math.max(1, Math.floor(half / pageSize)))
  const service = yield* startMeasured(nameOf(step), population({ ...senders, programs, versions }))
  const { connection, name, pass, read, url } = service
  const posts = requests(senders, "p", Math.max(1, Math.floor(users / half)))

  // the pages that are read are the same at every step
  yield* pass(requests(senders, "r", everyReader), first - half)
  for (let filled = first; filled < step; filled += fillSize) {
    yield* service.fill(senders, `f${filled}`, Math.min(fillSize, step - filled))
    yield* Effect.logInfo(`${name}: ${service.stored()}`)
  }

  const turn = Effect.fnUntraced(function*(round: number) {
    const reads = readsOf(first) * (round < 0 ? warmUpReads : 1)
    const readers = (path: (user: string) => string) => {
      let requests = 0
      return () => path(userOf(requests++ * everyReader % users))
    }
    const { posted, processed } = yield* pass(posts, postsOf(first))
    return {
      "events/s": processed["events/s"],
      "CPU µs/event": costOfEvent(processed),
      "CPU µs/post": costOf(posted),
      "CPU µs/balance": yield* read(reads, readers((user) => `/v1/users/${user}/balance`), "\"balances\""),
      "CPU µs/page of rewards": yield* read(
        reads,
        readers((user) => `/v1/users/${user}/rewards?limit=${pageSize}`),
        "revision"
      ),
      "CPU µs/page of events": yield* read(reads, () => `/v1/events?limit=${pageSize}`, "\"reward.pending\"")
    } satisfies Sample
  })

  return {
    name,
    url,
    vacuumed: execute(connection, "VACUUM ANALYZE"),
    checkpoint: execute(connection, "CHECKPOINT"),
    touched: pass(posts, half),
    turn,
    // after all turns: to count millions of rows fills the buffers with them
    verified: Effect.suspend(() => verifyRows(url, name, "rewards", service.stored()))
  }
})

const databaseBytes = (url: Redacted.Redacted) =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ bytes: bigint }>`SELECT pg_database_size(current_database()) AS bytes`
      return Number(row?.bytes ?? 0)
    })
  )
