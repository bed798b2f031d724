import { Effect, type Redacted } from "effect"
import type { Client } from "pg"
import { type Checkout, Checkouts, own } from "../Checkout.ts"
import {
  compare,
  type Competitor,
  InvalidRun,
  type Measure,
  type Size,
  takeTurns,
  valuesOf,
  verify
} from "../Measure.ts"
import { Processes, type Serving } from "../Processes.ts"
import { Server } from "../Server.ts"
import { type EventQueue, workOff } from "./Backlog.ts"
import { peer, type Requirements, serviceEnvironment, worker } from "./Competitors.ts"
import { connect, execute } from "./Connection.ts"
import { countOf } from "./Receivers.ts"

const integrators = 10
const without = "no endpoints"

/** Half of what it was while each delivery had a row of its own. */
const target = { bound: "at most", value: 350 } as const

/** What the delivery of an event leaves in tables, indexes and log. */
export const deliveryBytes: Measure<Requirements> = {
  name: "delivery-bytes",
  title: "Bytes of a delivered event",
  method: "The worker processes a backlog of clearings of 10 integrators, each of which makes one event, and " +
    "delivers the events at their first attempt; without endpoints it only processes. Each turn ends with a vacuum. " +
    "Bytes are the growth of the relations with their indexes, divided by the events of the turn. The tables of " +
    "delivery are those of endpoints, retries, replays and attempts, and that of deliveries in checkouts that have " +
    "it. The write-ahead log is that of processing and delivery together; the last line has what delivery adds to it.",
  run: Effect.fn("deliveryBytes")(function*(size: Size) {
    const checkouts = yield* Checkouts
    const findings = yield* takeTurns([
      yield* competitor(own, own.name, size, true),
      yield* competitor(own, without, size, false),
      ...(yield* Effect.forEach(checkouts, (checkout) => competitor(checkout, checkout.name, size, true)))
    ], size.rounds, { warmUp: true })
    const logWithout = valuesOf(findings, without, "log bytes/event")
    const logWith = valuesOf(findings, own.name, "log bytes/event")
    return {
      findings,
      comparisons: [
        {
          name: "tables of delivery, bytes/event",
          values: valuesOf(findings, own.name, "delivery bytes/event"),
          target
        },
        ...checkouts.flatMap(({ name }) =>
          ["delivery bytes/event", "events and delivery bytes/event"].map((metric) =>
            compare(findings, { of: own.name, against: name, metric }))),
        {
          name: "log of delivery, bytes/event",
          values: logWith.map((bytes, round) => bytes - (logWithout[round] ?? Number.NaN))
        }
      ],
      remarks: []
    }
  }, Effect.scoped)
}

const competitor = Effect.fnUntraced(function*(checkout: Checkout, name: string, size: Size, hasEndpoints: boolean) {
  const server = yield* Server
  const processes = yield* Processes
  const senders = { integrators, users: size.users }
  const url = yield* server.database(checkout.population({ ...senders, programs: 1, versions: 1 }))
  const receiver = yield* processes.serve({ entry: peer("receiver") })
  if (hasEndpoints) yield* checkout.addEndpoints(url, integrators, [`${receiver.baseUrl}/hooks`])
  const queue = yield* checkout.eventQueue(url)
  const connection = yield* connect(url)
  const count = size.backlog
  let before = yield* read(connection)
  return {
    name,
    turn: Effect.fnUntraced(function*(round: number) {
      const delivered = before.attempts + (hasEndpoints ? count : 0)
      const add = queue.store(senders, `r${round}`, count)
      const logBefore = yield* logPosition(connection)
      yield* Effect.scoped(work({ checkout, name, url, queue, receiver, count, delivered, add }))
      const logged = (yield* logPosition(connection)) - logBefore
      yield* execute(connection, "VACUUM")
      const after = yield* read(connection)
      yield* verify(`${name}: recorded attempts`, after.attempts, delivered)
      const perEvent = (part: (sizes: typeof after) => number) => (part(after) - part(before)) / count
      const sample = {
        "events and delivery bytes/event": perEvent(({ delivery, events }) => events + delivery),
        "events bytes/event": perEvent(({ events }) => events),
        "delivery bytes/event": perEvent(({ delivery }) => delivery),
        "log bytes/event": logged / count
      }
      before = after
      return sample
    })
  } satisfies Competitor<Requirements>
})

/** A new worker of the checkout processes a backlog and delivers its events. It ends after it has recorded them. */
const work = Effect.fnUntraced(function*(options: {
  readonly checkout: Checkout
  readonly name: string
  readonly url: Redacted.Redacted
  readonly queue: EventQueue
  readonly receiver: Serving
  readonly count: number
  readonly delivered: number
  readonly add: Effect.Effect<void, InvalidRun>
}) {
  const { add, checkout: { root }, count, delivered, name, queue, receiver, url } = options
  const processes = yield* Processes
  const running = yield* processes.start({ root, entry: worker, env: serviceEnvironment(url) })
  const hasAll = Effect.map(countOf(receiver), (received) => received >= delivered)
  yield* workOff({
    name,
    url,
    running: [running],
    count,
    add,
    isDone: (sql) => Effect.flatMap(queue.isEmpty(sql), (isEmpty) => isEmpty ? hasAll : Effect.succeed(false)),
    pollMillis: 50
  })
  yield* running.stop
})

interface Row {
  readonly events: string
  readonly delivery: string
  readonly attempts: string
}

/** Bytes of relations with their indexes and TOAST tables, and the rows of attempts. */
const read = Effect.fnUntraced(function*(connection: Client) {
  const row = yield* query<Row>(
    connection,
    `SELECT sum(pg_total_relation_size(oid)) FILTER (WHERE relname = 'events') AS events,
      sum(pg_total_relation_size(oid)) FILTER (WHERE relname <> 'events') AS delivery,
      (SELECT count(*) FROM delivery_attempts) AS attempts
    FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
      AND relname ~ '^(events|deliveries|retries|replays|webhook_endpoints|delivery_attempts.*)$'`
  )
  return { events: Number(row.events), delivery: Number(row.delivery), attempts: Number(row.attempts) }
})

/** Of the server, in bytes: only one competitor writes at a time. */
const logPosition = (connection: Client) =>
  Effect.map(
    query<{ readonly log: string }>(connection, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS log"),
    ({ log }) => Number(log)
  )

/** The only row of a statement. */
const query = <A extends object>(connection: Client, text: string): Effect.Effect<A, InvalidRun> =>
  Effect.tryPromise({
    try: async () => {
      const { rows: [row] } = await connection.query<A>(text)
      if (row === undefined) throw new Error("no row")
      return row
    },
    catch: (error) => new InvalidRun({ message: `${text}: ${error}` })
  })
