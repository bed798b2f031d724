import { value } from "@card-rewards/core/Database"
import { untilTrue } from "@card-rewards/testing/Polling"
import { folder, root, shiftedClock, variables } from "@card-rewards/testing/Processes"
import * as TestProcess from "@card-rewards/testing/TestProcess"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { sessionsOf } from "./Names.ts"

/** A worker in a process of its own. */
export interface Worker extends Pick<TestProcess.Running, "send" | "exit" | "output"> {
  readonly name: string
  /** Sets its wall clock ahead of the machine's. */
  readonly shiftClock: (millis: number) => Effect.Effect<void>
}

/** Starts a worker, and waits until it scans for endpoints to lease. */
export const start = Effect.fnUntraced(function*(name: string, url: Redacted.Redacted, leaseMillis: number) {
  const shiftFile = join(yield* folder, "shift")
  const shiftClock = (millis: number) => Effect.sync(() => writeFileSync(shiftFile, `${millis}`))
  yield* shiftClock(0)
  const env = variables(Redacted.value(url), {
    CLOCK_SHIFT_FILE: shiftFile,
    DATABASE_POOL_SIZE: "5",
    LOG_LEVEL: "info"
  })
  const entry = join(import.meta.dirname, "workerProcess.ts")
  const args = ["--import", shiftedClock, entry, name, `${leaseMillis}`]
  const child = yield* TestProcess.start(args, { cwd: root, env })
  const worker: Worker = { ...child, name, shiftClock }
  yield* untilTrue(Effect.tap(hasScanned(worker, 0), () => {
    return child.isAlive() ? Effect.void : Effect.die(new Error(`worker ${name} has ended: ${child.output()}`))
  }))
  return worker
})

/** Waits until a worker has scanned for endpoints to lease for a second. */
export const works = Effect.fnUntraced(function*(worker: Worker) {
  const sql = yield* SqlClient.SqlClient
  const [now] = yield* sql<{ at: number }>`SELECT clock_timestamp() AS at`
  yield* untilTrue(hasScanned(worker, (now?.at ?? 0) + 1_000))
})

/** Whether a worker has sent a statement of its dispatcher after this time of PostgreSQL. */
const hasScanned = Effect.fnUntraced(function*({ name }: Worker, afterMillis: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
    AND application_name = ${sessionsOf(name)} AND query LIKE '%webhook_endpoints%'
    AND query_start > ${value.timestamptz(afterMillis)}`
  return rows.length > 0
})

/** Waits until PostgreSQL runs no statement of a worker, except statements that wait for a lock. */
export const isQuiet = Effect.fnUntraced(function*({ name }: Worker) {
  const sql = yield* SqlClient.SqlClient
  const active = sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
    AND application_name = ${sessionsOf(name)} AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Lock'`
  // inside a transaction, PostgreSQL shows what it showed first
  const forget = sql`SELECT pg_stat_clear_snapshot()`
  yield* untilTrue(Effect.map(Effect.andThen(forget, active), ({ length }) => length === 0))
})
