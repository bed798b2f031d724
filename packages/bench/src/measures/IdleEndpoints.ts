import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Client } from "pg"
import { compare, type Competitor, type Measure, type Size, takeTurns } from "../Measure.ts"
import { Processes, type Serving } from "../Processes.ts"
import { integratorOf, population } from "../Seed.ts"
import { type Fill, Server } from "../Server.ts"
import { onDatabase, workOff } from "./Backlog.ts"
import { peer, type Requirements, serviceEnvironment, worker } from "./Competitors.ts"
import { connect } from "./Connection.ts"
import { cpuUsage } from "./CpuUsage.ts"
import { addEndpoints } from "./Endpoints.ts"
import { countOf } from "./Receivers.ts"
import { storeEvents } from "./StoredEvents.ts"

/** What endpoints without work cost: the delivery of others' events, and a worker that has nothing to do. */
export const idleEndpoints: Measure<Requirements> = {
  name: "idle-endpoints",
  title: "One busy endpoint beside idle ones",
  method: "An endpoint gets a backlog of events, alone and beside 10,000 live endpoints of other integrators that " +
    "have nothing to be delivered. In each turn a new worker first has nothing to do for as long as a turn lasts, of " +
    "which the CPU time per second is measured. Then it delivers one backlog that does not count, and one that does.",
  run: Effect.fn("idleEndpoints")(function*(size: Size) {
    const alone = "one endpoint"
    const beside = `beside ${size.idleEndpoints.toLocaleString("en-US")} idle ones`
    const findings = yield* takeTurns([
      yield* competitor(alone, size, 0),
      yield* competitor(beside, size, size.idleEndpoints)
    ], size.rounds)
    const most = { bound: "at most", value: 1.1 } as const
    const ratio = (metric: string) => compare(findings, { of: beside, against: alone, metric }, most)
    return {
      findings,
      comparisons: [
        compare(findings, { of: alone, against: beside, metric: "deliveries/s" }, most),
        ratio("worker CPU µs/delivery"),
        ratio("PostgreSQL CPU µs/delivery"),
        ratio("idle worker CPU ms/s"),
        ratio("idle PostgreSQL CPU ms/s")
      ],
      remarks: []
    }
  }, Effect.scoped)
}

const owner = integratorOf(0)

const competitor = Effect.fnUntraced(function*(name: string, size: Size, idle: number) {
  const server = yield* Server
  const processes = yield* Processes
  const url = yield* server.database(withIdleEndpoints(idle))
  const receiver = yield* processes.serve({ entry: peer("receiver") })
  yield* addEndpoints(url, 1, [`${receiver.baseUrl}/hooks`])
  const connection = yield* connect(url)
  return { name, turn: (round) => Effect.scoped(turn({ name, url, receiver, connection, size, round })) } satisfies
    Competitor<Requirements>
})

/** A worker without work, and then with a backlog. No other worker runs, whose share of PostgreSQL would count too. */
const turn = Effect.fnUntraced(function*(options: {
  readonly name: string
  readonly url: Redacted.Redacted
  readonly receiver: Serving
  readonly connection: Client
  readonly size: Size
  readonly round: number
}) {
  const { connection, name, receiver, round, size: { backlog: count, idleMillis, warmUpMillis }, url } = options
  const processes = yield* Processes
  const running = [yield* processes.start({ entry: worker, env: serviceEnvironment(url) })]
  yield* onDatabase(url, Effect.flatMap(SqlClient.SqlClient, hasWorker))
  yield* Effect.sleep(warmUpMillis)
  const before = yield* cpuUsage(running)
  yield* Effect.sleep(idleMillis)
  const after = yield* cpuUsage(running)

  const deliver = Effect.fnUntraced(function*(prefix: string) {
    const expected = (yield* countOf(receiver)) + count
    const add = storeEvents(connection, { integrators: [owner], count, prefix })
    const isDone = (sql: SqlClient.SqlClient) =>
      Effect.flatMap(countOf(receiver), (received) => received < expected ? Effect.succeed(false) : isRecorded(sql))
    return yield* workOff({ name, url, running, count, add, isDone, pollMillis: 50 })
  })
  yield* deliver(`w${round}`)
  const sample = yield* deliver(`d${round}`)
  return {
    "deliveries/s": sample["events/s"],
    "worker CPU µs/delivery": sample["worker CPU µs/event"],
    "PostgreSQL CPU µs/delivery": sample["PostgreSQL CPU µs/event"],
    "idle worker CPU ms/s": (after.processes - before.processes) / idleMillis,
    "idle PostgreSQL CPU ms/s": (after.postgres - before.postgres) / idleMillis
  }
})

/** Waits until the worker has its sessions. */
const hasWorker = (sql: SqlClient.SqlClient) =>
  sql`SELECT FROM pg_stat_activity WHERE application_name = 'card-rewards worker'
    AND datname = current_database()`.pipe(
    Effect.delay("20 millis"),
    Effect.repeat({ until: (sessions) => sessions.length > 0 })
  )

const isRecorded = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql`SELECT FROM webhook_endpoints e JOIN vaults v USING (integrator_id)
      WHERE e.integrator_id = ${owner} AND e.cursor = v.events`,
    (rows) => rows.length > 0
  )

/** One integrator, and others whose endpoints have got all of their events. */
const withIdleEndpoints = (idle: number): Fill => {
  const base = population({ integrators: 1, users: 1, programs: 1, versions: 1 })
  return { name: `${base.name}_idle_${idle}`, base, fill: (url) => Effect.orDie(onDatabase(url, addIdle(idle))) }
}

const addIdle = Effect.fnUntraced(function*(count: number) {
  const sql = yield* SqlClient.SqlClient
  const idle = sql`(SELECT 'idle-' || n AS integrator_id, lpad(to_hex(n), 16, '0') AS salt
    FROM generate_series(1, ${sql.literal(`${count}`)}) AS n) AS t`
  yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt)
    SELECT integrator_id, now(), salt FROM ${idle}`
  yield* sql`INSERT INTO vaults (integrator_id, vault_id, events) SELECT integrator_id, 'sandbox', 1 FROM ${idle}`
  yield* sql`INSERT INTO webhook_endpoints (integrator_id, generation, endpoint_id, url, created_at, first_revision,
      revision, start, cursor)
    SELECT integrator_id, 1, 'bench', 'https://receiver.example/hooks', now(), 1, 1, 0, 1 FROM ${idle}`
  yield* sql`VACUUM ANALYZE`
})
