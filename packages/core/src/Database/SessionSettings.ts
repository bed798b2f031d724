import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { literal } from "./Table.ts"

/**
 * Restricts the planner to index scans, whatever its statistics say. Prepared plans are kept while tables grow from
 * empty to millions of rows, and every scan with a `LIMIT` has an index that ends it early. Rows read, measured by the
 * cost tests with one setting changed:
 *
 * | step | as set | `enable_seqscan` on | `enable_bitmapscan` on |
 * | --- | --- | --- | --- |
 * | a batch of 600 events beside 10,000 integrators, planned beside 50 | 4,097 | 13,841 | 4,097 |
 * | vitals with 10 active of 10,000 integrators, slots apart, planned beside none | at most 100 | 354 | at most 100 |
 * | vitals of money beside 20,000 rewards and users | at most 20,102 | 40,003 | at most 20,102 |
 * | a backlog of 120,000 queued and waiting, counted up to 100,000 | at most 200,100 | at most 200,100 | 240,017 |
 * | the quarantine list, counts up to 10,000 of 20,000 | at most 21,500 | at most 21,500 | 40,551 |
 *
 * A plan with a sequential scan that was made for few rows reads the whole table later. A bitmap scan collects all
 * matching rows before a `LIMIT` can end it. The audit reads whole tables and turns sequential scans on for itself.
 *
 * A `Memoize` keeps the results of look-ups that are hardly ever repeated: a batch looks up each event and each user
 * once (decision 10).
 *
 * A prepared statement has one plan for all parameters. Otherwise PostgreSQL plans some again each time, because the
 * plan for all seems more expensive: beside 10,000 endpoints that made a delivery to a single busy one cost 59 instead
 * of 47 µs, and 50 instead of 42 without them.
 *
 * No plan is compiled. A server with LLVM, as most distributions have it, compiles what costs much, for each execution
 * anew, and up to PostgreSQL 17 a scan of a table of one row costs 10¹⁰ while sequential scans are off: of 48,815
 * statements of a test run on PostgreSQL 15.18 it compiled 601, for 234 of the 265 s that all of them took.
 */
const plannerSettings = {
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  enable_memoize: "off",
  jit: "off",
  plan_cache_mode: "force_generic_plan"
}

/** Whether the server has the Citus extension. */
export const isCitus = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return (yield* sql`SELECT FROM pg_extension WHERE extname = 'citus'`).length > 0
})

/** On Citus, which cannot plan statements with arrays before it knows their parameters, and plans each anew anyway. */
export const citusSettings = { plan_cache_mode: "force_custom_plan" }

/** Settings that end the sessions of clients that are gone. */
export const lostClientSettings = {
  // ends the session of a client that vanished without closing its connection, and its locks, within a minute
  tcp_keepalives_idle: "30",
  tcp_keepalives_interval: "10",
  tcp_keepalives_count: "3",
  tcp_user_timeout: "30s",
  // cancels a running statement when its client has disconnected
  client_connection_check_interval: "1s"
}

/**
 * Lets the transaction take any time, whatever the database's defaults, and each of its statements so many
 * milliseconds. Where that is 0, statements and the pauses between them take any time, too. The last of these settings
 * is new in PostgreSQL 17.
 */
export const takeTime = Effect.fnUntraced(function*(statementMillis: number) {
  const sql = yield* SqlClient.SqlClient
  const statement = literal(`'${statementMillis}'`)
  yield* sql`
    SELECT set_config(name, CASE name WHEN 'statement_timeout' THEN ${statement} ELSE '0' END, true)
    FROM pg_settings
    WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
      AND (name <> 'idle_in_transaction_session_timeout' OR ${statement} = '0')`
})

/** SQL that, where it is evaluated, limits each later lock wait of the transaction to this time. It is never null. */
export const limitLockWaits = (millis: number): Statement.Fragment =>
  literal(`set_config('lock_timeout', '${millis}ms', true)`)

/** The settings of every session of the pool. */
export const sessionSettings = {
  timezone: "UTC",
  // each statement sees what was committed before it, such as a slot that is marked as leaving, or a row it waited for
  default_transaction_isolation: "read committed",
  // what is answered is on the disk, also where the database's default is that it need not be
  synchronous_commit: "on",
  statement_timeout: "30s",
  // longer than any pause between two statements of a transaction; ends lost sessions and releases their locks
  idle_in_transaction_session_timeout: "5s",
  ...lostClientSettings,
  ...plannerSettings
}
