import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Drive } from "../Load.ts"
import { compare, figure, type Measure, type Sample, type Size, takeTurns } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { keyOf, population, userOf } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests, storeMany } from "../SpendEvents.ts"
import { isQueueEmpty, onDatabase, verifyRows, workOff } from "./Backlog.ts"
import { connect, execute } from "./Connection.ts"
import { accepted, api, load, type Needs, processor, serviceEnvironment } from "./Contestants.ts"

/** Rewards on the page that is read; readers have as many from the first step on. */
const pageOf = 50

/** What each turn of a step takes, by the stored events of the first step. */
const postedOf = (first: number) => Math.ceil(first / 5)
const readOf = (first: number) => Math.ceil(first / 10)
/** Reads of the turn that does not count, for each of one that does: by then all that answers is compiled. */
const warmUps = 4

/** Whether what is stored makes anything dearer. */
export const growth: Measure<Needs> = {
  name: "growth",
  title: "An event, a post and a read, as more is stored",
  method: "One integrator with 50 programs of 100 versions and 20,000 users; all that is stored was processed by " +
    "the worker. Each step has a database, an api and a worker of its own, and they take turns. In a turn 2,000 clearings " +
    "are posted while the worker is kept from their lanes, then worked off; then 1,000 balances, pages of 50 rewards and " +
    "first pages of 50 events are read. Posts are for every fourth user, reads for 100 users with 50 rewards, so that each " +
    "step has the same work to do. Before the turns the tables are vacuumed, a checkpoint is made, and each of the 5,000 " +
    "users gets an event: a page's first change after a checkpoint costs more, and what is small has few pages. Cost is " +
    "processor time of the service and of PostgreSQL together.",
  run: Effect.fn("growth")(function*(size: Size) {
    const steps = yield* Effect.forEach(size.growth, (step) => prepare(size, step))
    for (const { vacuumed } of steps) yield* vacuumed
    // one is of all databases
    yield* steps[0]?.checkpoint ?? Effect.void
    for (const { touched } of steps) yield* touched
    const bytes = yield* Effect.forEach(steps, ({ url }) => databaseBytes(url))
    const findings = yield* takeTurns(steps, size.rounds, { warmUp: true })
    const [first = 0, last = 0] = [size.growth[0], size.growth.at(-1)]
    const bytesOfEvent = ((bytes.at(-1) ?? 0) - (bytes[0] ?? 0)) / (last - first)
    const costs = ["CPU µs/event", "CPU µs/post", "CPU µs/balance", "CPU µs/page of rewards", "CPU µs/page of events"]
    const reach = { bound: "at most", value: 1.2 } as const
    return {
      findings,
      comparisons: [
        compare(findings, { of: nameOf(first), against: nameOf(last), metric: "events/s" }, reach),
        ...costs.map((metric) => compare(findings, { of: nameOf(last), against: nameOf(first), metric }, reach))
      ],
      remarks: [`A stored event takes ${figure(bytesOfEvent)} bytes of tables and indexes, with all that comes of it.`]
    }
  }, Effect.scoped)
}

const nameOf = (step: number): string => `${step.toLocaleString("en-US")} stored`

/** The service with so many stored events, but for those that `touched` adds. */
const prepare = Effect.fnUntraced(function*(size: Size, step: number) {
  const server = yield* Server
  const processes = yield* Processes
  const { growth: [first = 0], programs, users, versions } = size
  const senders = { integrators: 1, users }
  const url = yield* server.database(population({ ...senders, programs, versions }))
  const env = serviceEnvironment(url)
  const serving = [yield* processes.serve({ entry: api, env })]
  const running = [yield* processes.start({ entry: processor, env })]
  const connection = yield* connect(url)
  const half = Math.floor(first / 2)
  const everyReader = Math.floor(users / Math.max(1, Math.floor(half / pageOf)))
  const posters = requests(senders, "p", Math.max(1, Math.floor(users / half)))
  const name = nameOf(step)
  let stored = 0

  /** Posts while the worker is kept from the lanes, then lets it at them. */
  const pass = Effect.fnUntraced(function*(next: Drive["next"], atLeast: number) {
    yield* execute(connection, "BEGIN; SELECT FROM lanes FOR UPDATE")
    const { requests: count, sample: posted } = yield* load({ name, serving, next, expected: accepted }, 0, atLeast)
    const add = execute(connection, "COMMIT")
    const processed = yield* workOff({ name, url, running, count, add, isDone: isQueueEmpty })
    stored += count
    return { posted, processed }
  })

  // pages that are read are the same at every step
  yield* pass(requests(senders, "r", everyReader), first - half)
  if (step > first) {
    const count = step - first
    const add = onDatabase(url, storeMany(senders, "f", count))
    yield* workOff({ name, url, running, count, add, isDone: isQueueEmpty })
    stored += count
  }

  const read = Effect.fnUntraced(function*(count: number, path: (reader: string) => string, body: string) {
    let asked = 0
    const headers = ["x-api-key", keyOf(0)]
    const next = () => ({ method: "GET" as const, path: path(userOf(asked++ * everyReader % users)), headers })
    return costOf((yield* load({ name, serving, next, expected: { status: 200, body } }, 0, count)).sample)
  })

  const turn = Effect.fnUntraced(function*(round: number) {
    const reads = readOf(first) * (round < 0 ? warmUps : 1)
    const { posted, processed } = yield* pass(posters, postedOf(first))
    const sample = {
      "events/s": processed["events/s"],
      "CPU µs/event": processed["worker CPU µs/event"] + processed["PostgreSQL CPU µs/event"],
      "CPU µs/post": costOf(posted),
      "CPU µs/balance": yield* read(reads, (reader) => `/v1/users/${reader}/balance`, "\"balances\""),
      "CPU µs/page of rewards": yield* read(reads, (user) => `/v1/users/${user}/rewards?limit=${pageOf}`, "revision"),
      "CPU µs/page of events": yield* read(reads, () => `/v1/events?limit=${pageOf}`, "\"reward.pending\"")
    } satisfies Sample
    yield* verifyRows(url, name, "rewards", stored)
    return sample
  })

  return {
    name,
    url,
    vacuumed: execute(connection, "VACUUM ANALYZE"),
    checkpoint: execute(connection, "CHECKPOINT"),
    touched: pass(posters, half),
    turn
  }
})

type Loaded = Effect.Success<ReturnType<typeof load>>["sample"]

const costOf = (sample: Loaded): number => sample["server CPU µs/request"] + sample["PostgreSQL CPU µs/request"]

const databaseBytes = (url: Redacted.Redacted) =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ bytes: bigint }>`SELECT pg_database_size(current_database()) AS bytes`
      return Number(row?.bytes ?? 0)
    })
  )
