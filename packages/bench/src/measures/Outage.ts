import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import { breakerThreshold } from "@card-rewards/domain/Delivery"
import { Effect, type Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { performance } from "node:perf_hooks"
import type { Client } from "pg"
import { type Comparison, InvalidRun, type Measure, median, type Sample, type Size, type Target } from "../Measure.ts"
import { Processes, type Running, type Serving } from "../Processes.ts"
import { integratorOf, population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { onDatabase, workOff } from "./Backlog.ts"
import { peer, type Requirements, serviceEnvironment, worker } from "./Competitors.ts"
import { connect } from "./Connection.ts"
import { addEndpoints } from "./Endpoints.ts"
import { latenciesOf } from "./Latency.ts"
import { ask, countOf, takeRate, verifyOrder, withArrivals } from "./Receivers.ts"
import { storeEvents } from "./StoredEvents.ts"
import { followed } from "./System.ts"

/** The endpoint that is down, and the one beside it. */
const [failing, other] = [integratorOf(0), integratorOf(1)]

/** Events of each reward of the failing endpoint. */
const revisions = 4

/** A probe of an open breaker comes after the longest of these, instead of 30 s and more. */
const retryDelays = Array.from({ length: 12 }, () => "1s").join()

/** The longest pause between two events of the other endpoint; the pauses are random. */
const maxPauseMillis = 300
const memoryPollMillis = 100
const breakerTimeoutSeconds = 30

/** What an endpoint that is down costs, and how fast it catches up. */
export const outage: Measure<Requirements> = {
  name: "outage",
  title: "An endpoint that is down",
  method: "Two endpoints, one worker. Without an outage the first one gets 20,000 events at once, five times. Then " +
    "its receiver answers 503, and 10,000 or 1,000,000 events are stored for it. Retries and attempts are the rows " +
    "that the outage has added after 20 s in which the breaker is open; MiB are the worker's resident memory. " +
    "Meanwhile the other endpoint gets an event every 150 ms on average, whose delay is the time from its commit " +
    "until its webhook is received. Then the receiver answers 200 again; deliveries/s are those from the first to " +
    "the last of them. Every reward has four events, whose order is verified at the receiver. Each delay of the " +
    "retry schedule is 1 s, so that the open breaker sends a probe every second.",
  run: Effect.fn("outage")(function*(size: Size) {
    const system = yield* start
    const [small, large] = size.outages
    const without: Array<Sample> = []
    for (let round = -1; round < size.rounds; round++) {
      const drained = yield* fresh(system, size.backlog, round)
      if (round >= 0) without.push({ ...drained, ...(yield* delays(system, `none${round}`, size.outageMillis)) })
    }
    const few = yield* duringOutage(system, small, size.outageMillis)
    const many = yield* duringOutage(system, large, size.outageMillis)
    const waiting = `${thousands(large)} waiting`
    const rate = median(without.map((sample) => sample["deliveries/s"] ?? Number.NaN))
    return {
      findings: [
        { competitor: "no outage", samples: without },
        { competitor: `${thousands(small)} waiting`, samples: [few] },
        { competitor: waiting, samples: [many] }
      ],
      comparisons: [
        comparison(`deliveries/s: ${waiting} / no outage`, many["deliveries/s"] / rate, "at least", 0.8),
        comparison(`rows: ${waiting} / ${thousands(small)} waiting`, rowsOf(many) / rowsOf(few), "at most", 1.2),
        comparison(`MiB: ${waiting}, down / before`, many["MiB down"] / many["MiB before"], "at most", 1.1),
        comparison(`MiB: ${waiting}, after / before`, many["MiB after"] / many["MiB before"], "at most", 1.1),
        comparison(`other endpoint beside ${waiting}, p50 ms`, many["other p50 ms"], "at most", 100),
        comparison(`other endpoint beside ${waiting}, p99 ms`, many["other p99 ms"], "at most", 500)
      ],
      remarks: []
    }
  }, Effect.scoped)
}

const thousands = (count: number): string => count.toLocaleString("en-US")

const comparison = (name: string, figure: number, bound: Target["bound"], value: number): Comparison =>
  ({ name, values: [figure], target: { bound, value } })

const rowsOf = (sample: { readonly retries: number; readonly attempts: number }) => sample.retries + sample.attempts

interface System {
  readonly url: Redacted.Redacted
  readonly connection: Client
  readonly worker: Running
  /** Receivers of the endpoint that fails, and of the other one. */
  readonly receiver: Serving
  readonly otherReceiver: Serving
}

const start = Effect.gen(function*() {
  const server = yield* Server
  const processes = yield* Processes
  const url = yield* server.database(population({ integrators: 2, users: 2, programs: 1, versions: 1 }))
  const receiver = yield* processes.serve({ entry: peer("receiver"), env: { ORDERED: "true" } })
  const otherReceiver = yield* processes.serve({ entry: peer("receiver"), env: { FOLLOWED: followed } })
  yield* addEndpoints(url, 2, [receiver, otherReceiver].map(({ baseUrl }) => `${baseUrl}/hooks`))
  const env = { ...serviceEnvironment(url), WEBHOOK_RETRY_DELAYS: retryDelays }
  const running = yield* processes.start({ entry: worker, env })
  return { url, connection: yield* connect(url), worker: running, receiver, otherReceiver } satisfies System
})

const fresh = (system: System, count: number, round: number) =>
  drain(system, count, addEvents(system, count, `n${round}`))

const addEvents = ({ connection }: System, count: number, prefix: string) =>
  storeEvents(connection, { integrators: [failing], count, prefix, revisions })

const duringOutage = Effect.fnUntraced(function*(system: System, waiting: number, millis: number) {
  const { receiver, url, worker } = system
  const before = yield* mebibytes(worker)
  yield* ask(receiver, "/fail")
  const attemptsBefore = (yield* rows(url)).failed
  yield* addEvents(system, waiting, `o${waiting}`)
  yield* onDatabase(url, Effect.flatMap(SqlClient.SqlClient, breakerIsOpen))
  let down = 0
  const sampleMemory = Effect.map(mebibytes(worker), (now) => void (down = Math.max(down, now)))
  const delayed = yield* Effect.raceFirst(
    delays(system, `o${waiting}`, millis),
    Effect.andThen(Effect.repeat(sampleMemory, Schedule.spaced(memoryPollMillis)), Effect.never)
  )
  const { failed, retries } = yield* rows(url)
  const drained = yield* drain(system, waiting, ask(receiver, "/accept"))
  yield* verifyOrder(`outage with ${waiting} events`, receiver)
  return {
    ...drained,
    retries,
    attempts: failed - attemptsBefore,
    "MiB before": before,
    "MiB down": down,
    "MiB after": yield* mebibytes(worker),
    ...delayed
  } satisfies Sample
})

const mebibytes = ({ residentBytes }: Running) => Effect.map(residentBytes, (bytes) => bytes / 2 ** 20)

/** Begins the delivery of this many events, and waits until all are delivered and recorded. */
const drain = Effect.fnUntraced(function*<A>(
  { receiver, url, worker }: System,
  count: number,
  begin: Effect.Effect<A, InvalidRun>
) {
  const expected = (yield* countOf(receiver)) + count
  yield* takeRate(receiver)
  const isDone = (sql: SqlClient.SqlClient) =>
    Effect.flatMap(countOf(receiver), (received) =>
      received < expected
        ? Effect.succeed(false)
        : Effect.map(sql`${sql.literal(undelivered)} LIMIT 1`, (left) => left.length === 0))
  const sample = yield* workOff({
    name: "outage",
    url,
    running: [worker],
    count,
    add: Effect.asVoid(begin),
    isDone,
    pollMillis: 50
  })
  return {
    "deliveries/s": yield* takeRate(receiver),
    "worker CPU µs/delivery": sample["worker CPU µs/event"],
    "PostgreSQL CPU µs/delivery": sample["PostgreSQL CPU µs/event"]
  }
})

/** Stores events for the other endpoint, one after a while, and returns how long their webhooks take. */
const delays = Effect.fnUntraced(function*({ connection, otherReceiver }: System, name: string, millis: number) {
  const endsAt = performance.now() + millis
  const events: Array<{ readonly id: string; readonly committedAt: bigint }> = []
  do {
    const prefix = `${followed}${name}-${events.length}`
    yield* storeEvents(connection, { integrators: [other], count: 1, prefix })
    events.push({ id: `${prefix}-0`, committedAt: process.hrtime.bigint() })
    yield* Effect.sleep(Math.random() * maxPauseMillis)
  } while (performance.now() < endsAt)
  const arrivals = yield* withArrivals("outage", otherReceiver, events)
  const latencies = latenciesOf(arrivals.map(({ committedAt, receivedAt }) => receivedAt - committedAt))
  return { "other p50 ms": latencies["p50 ms"], "other p99 ms": latencies["p99 ms"] }
})

/** Open retries of the failing endpoint, and its failed attempts. */
const rows = (url: Redacted.Redacted) =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ retries: number; failed: number }>`SELECT
        (SELECT count(*)::int FROM retries WHERE integrator_id = ${failing} AND state = 'open') AS retries,
        (SELECT count(*)::int FROM delivery_attempts WHERE integrator_id = ${failing} AND status = 503) AS failed`
      return row ?? { retries: 0, failed: 0 }
    })
  )

const breakerIsOpen = (sql: SqlClient.SqlClient) =>
  sql`SELECT FROM webhook_endpoints WHERE integrator_id = ${failing} AND failures >= ${breakerThreshold}`.pipe(
    Effect.delay("20 millis"),
    Effect.repeat({ until: (open) => open.length > 0 }),
    Effect.timeoutOrElse({
      duration: `${breakerTimeoutSeconds} seconds`,
      orElse: () => Effect.fail(new InvalidRun({ message: "outage: the breaker does not open" }))
    })
  )
