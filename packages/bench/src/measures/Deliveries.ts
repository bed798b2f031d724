import { Effect, type Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import type { Client } from "pg"
import { type Checkout, Checkouts, type EventLog, own } from "../Checkout.ts"
import { generateLoad } from "../Load.ts"
import {
  compare,
  compareSum,
  type Competitor,
  type InvalidRun,
  type Measure,
  type Size,
  takeTurns,
  verify
} from "../Measure.ts"
import { bodyOf } from "../peers/EventWork.ts"
import { Processes, type Running, type Serving } from "../Processes.ts"
import { integratorOf, userOf } from "../Seed.ts"
import { Server } from "../Server.ts"
import { workOff } from "./Backlog.ts"
import { connections, peer, type Requirements, serviceEnvironment, worker } from "./Competitors.ts"
import { connect } from "./Connection.ts"
import { ask, countOf } from "./Receivers.ts"
import { headers, postInLoop, type Sent } from "./UndiciLoop.ts"

const loop = "undici request loop"
const oneAddress = "the loop, one address"
const dispatch = "undici dispatch, one address"

/** Integrators with an endpoint each: an endpoint has at most 16 requests in flight. */
const integrators = 32
/** Deliveries of a turn, in multiples of the size's backlog: it lasts about as long as a turn of the loop. */
const backlogs = 3

const owners = Array.from({ length: integrators }, (_, index) => integratorOf(index))
const event = { cents: "12345", earned: "123450000", occurredAt: "2026-01-01T00:00:00.000Z" }
const body = (id: string, index: number): string =>
  bodyOf(id, { integratorId: integratorOf(index), userId: userOf(index), externalTransactionId: `d-${index}` }, event)

/** Stored events to a receiver of webhooks, signed. */
export const deliveries: Measure<Requirements> = {
  name: "deliveries",
  title: "Deliveries to a local receiver, signed",
  method: "Pending deliveries of 32 endpoints appear in one commit; the worker leases, signs, sends and records " +
    "them. The loop awaits undici's `request`s, 64 at a time, as undici's documentation shows. It sends as many " +
    "bytes, with a signature that was made before, to the same addresses of the receiver in turn, and records " +
    "nothing. With one address it is faster, because it looks up no connection pool. Fastest is undici's `dispatch` " +
    "with callbacks.",
  run: Effect.fn("deliveries")(function*(size: Size) {
    const server = yield* Server
    const processes = yield* Processes
    const checkouts = yield* Checkouts
    const receiver = yield* processes.serve({ entry: peer("receiver"), env: { ORIGINS: `${integrators}` } })
    const origins = JSON.parse(yield* ask(receiver, "/origins")) as ReadonlyArray<string>
    const received = receivedBy(receiver)
    const competitor = Effect.fnUntraced(function*({ addEndpoints, log, name, population, root }: Checkout) {
      if (log === undefined) return []
      const url = yield* server.database(population({ integrators, users: integrators, programs: 1, versions: 1 }))
      yield* addEndpoints(url, integrators, origins.map((origin) => `${origin}/hooks`))
      const running = yield* processes.start({ root, entry: worker, env: serviceEnvironment(url) })
      const connection = yield* connect(url)
      const each = Math.ceil(backlogs * size.backlog / integrators)
      return [deliverer({ name, log, url, running, connection, received, each })]
    })
    const sent = body("evt_0123456789abcdef000000000001", 1)
    const deliverers = (yield* Effect.forEach([own, ...checkouts], competitor)).flat()
    const findings = yield* takeTurns([
      ...deliverers,
      sender(loop, received, postInLoop(origins, sent, size.turnMillis)),
      sender(oneAddress, received, postInLoop([receiver.baseUrl], sent, size.turnMillis)),
      sender(dispatch, received, generateLoad({
        baseUrls: [receiver.baseUrl],
        connections,
        millis: size.turnMillis,
        next: () => ({ method: "POST", path: "/hooks", headers, body: sent }),
        expected: { status: 200 }
      }))
    ], size.rounds, { warmUp: true })
    return {
      findings,
      comparisons: [
        compare(findings, { of: own.name, against: loop, metric: "deliveries/s" }, { bound: "at least", value: 0.5 }),
        compareSum(findings, {
          of: own.name,
          against: loop,
          name: "CPU µs/delivery",
          metrics: ["sender CPU µs/delivery", "PostgreSQL CPU µs/delivery"]
        }),
        ...[oneAddress, dispatch, ...deliverers.slice(1).map(({ name }) => name)].map((against) =>
          compare(findings, { of: own.name, against, metric: "deliveries/s" })
        ),
        ...deliverers.slice(1).flatMap(({ name }) =>
          ["sender CPU µs/delivery", "PostgreSQL CPU µs/delivery"].map((metric) =>
            compare(findings, { of: own.name, against: name, metric })
          ))
      ],
      remarks: []
    }
  }, Effect.scoped)
}

/** The receiver's count of webhooks, and how many of them the turns so far account for. */
const receivedBy = (receiver: Serving) => {
  let expected = 0
  const counted = countOf(receiver)
  return {
    /** Whether the receiver has this many webhooks of the present turn. */
    has: (count: number) => Effect.map(counted, (all) => all >= expected + count),
    /** Verifies that the turn that ends has sent this many webhooks. */
    verify: Effect.fnUntraced(function*(name: string, count: number) {
      expected += count
      yield* verify(`${name}: received`, yield* counted, expected)
    })
  }
}

type Received = ReturnType<typeof receivedBy>

/** A checkout's worker with deliveries that appear at once. */
const deliverer = (options: {
  readonly name: string
  readonly log: EventLog
  readonly url: Redacted.Redacted
  readonly running: Running
  readonly connection: Client
  readonly received: Received
  /** Deliveries of each integrator in a turn. */
  readonly each: number
}): Competitor<Requirements> => {
  const { connection, each, log, name, received, running, url } = options
  const count = each * integrators
  const hasPending = (sql: SqlClient.SqlClient) =>
    Effect.map(sql`${sql.literal(log.undelivered)} LIMIT 1`, (rows) => rows.length > 0)
  return {
    name,
    turn: Effect.fnUntraced(function*(round: number) {
      const sample = yield* workOff({
        name,
        url,
        running: [running],
        count,
        add: log.store(connection, { integrators: owners, count: each, prefix: `d${round}` }),
        // the receiver answers first: it costs PostgreSQL nothing
        isDone: (sql) =>
          Effect.flatMap(received.has(count), (hasAll) =>
            hasAll ? Effect.map(hasPending(sql), (isPending) => !isPending) : Effect.succeed(false)),
        pollMillis: 50
      })
      yield* received.verify(name, count)
      return {
        "deliveries/s": sample["events/s"],
        "sender CPU µs/delivery": sample["worker CPU µs/event"],
        "PostgreSQL CPU µs/delivery": sample["PostgreSQL CPU µs/event"]
      }
    })
  }
}

/** A competitor that only posts. */
const sender = (
  name: string,
  received: Received,
  run: Effect.Effect<Sent, InvalidRun>
): Competitor<Requirements> => ({
  name,
  turn: Effect.fnUntraced(function*() {
    const { cpuMicros, requests, seconds, wrong } = yield* run
    yield* verify(`${name}: wrong responses`, wrong, 0)
    yield* received.verify(name, requests)
    return {
      "deliveries/s": requests / seconds,
      "sender CPU µs/delivery": cpuMicros / requests,
      "PostgreSQL CPU µs/delivery": 0
    }
  })
})
