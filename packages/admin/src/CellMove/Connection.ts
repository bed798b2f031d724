import type { Cell } from "@card-rewards/core/Cells"
import { lostClientSettings } from "@card-rewards/core/Database/SessionSettings"
import { Deferred, Duration, Effect, Redacted, type Scope } from "effect"
import { Socket } from "node:net"
import { pipeline } from "node:stream/promises"
import pg from "pg"
import { from, to } from "pg-copy-streams"
import { Refused } from "../Exit.ts"

/** A connection to a cell, as the owner of its tables. Errors name the cell, and are one line without addresses. */
export interface Connection {
  readonly cell: Cell
  /** Runs a statement; names of its columns stay as they are. */
  readonly query: <Row extends object>(
    text: string,
    values?: ReadonlyArray<unknown>
  ) => Effect.Effect<ReadonlyArray<Row>, Refused>
  /** Runs a statement and returns how many rows it changed. */
  readonly change: (text: string, values?: ReadonlyArray<unknown>) => Effect.Effect<number, Refused>
  readonly client: pg.Client
  /** Fails once the connection has ended, and so has what it locked. */
  readonly lost: Effect.Effect<never, Refused>
}

/** Values have the same text, moves no deadlines and what is committed is stored, whatever the servers' settings. */
const settings = {
  client_encoding: "UTF8",
  timezone: "UTC",
  datestyle: "ISO",
  bytea_output: "hex",
  synchronous_commit: "on",
  default_transaction_isolation: "read committed",
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
  idle_session_timeout: "0",
  transaction_timeout: "0",
  ...lostClientSettings
}

/** Sets those that the server knows: the last timeout is new in PostgreSQL 17. */
const setAll = `SELECT set_config(s.name, t.setting, false)
  FROM unnest($1::text[], $2::text[]) AS t (name, setting) JOIN pg_settings s ON lower(s.name) = lower(t.name)`

/** After so long without an answer the system asks whether the server is still there; it gives up within 10 s. */
const keepAliveMillis = 30_000

/** How long a connection may take to end; a half-open one never does. */
const closeTimeout = Duration.seconds(2)

/** How long a server may take to accept a connection and its settings. */
const openTimeout = Duration.seconds(5)

/** Opens a connection, which ends with the scope. The driver of core has no COPY, hence another one here. */
export const connect = Effect.fnUntraced(
  function*(cell: Cell): Effect.fn.Return<Connection, Refused, Scope.Scope> {
    const { client, lost } = yield* Effect.acquireRelease(Effect.sync(() => makeClient(cell)), close)
    const failed = refusal(cell)
    const run = <Row extends object>(text: string, values: ReadonlyArray<unknown> = []) =>
      Effect.tryPromise({ try: () => client.query<Row>(text, [...values]), catch: failed })
    const query = <Row extends object>(text: string, values?: ReadonlyArray<unknown>) =>
      Effect.map(run<Row>(text, values), ({ rows }): ReadonlyArray<Row> => rows)
    const change = (text: string, values?: ReadonlyArray<unknown>) =>
      Effect.map(run(text, values), ({ rowCount }) => rowCount ?? 0)
    yield* Effect.gen(function*() {
      yield* Effect.tryPromise({ try: () => client.connect(), catch: failed })
      yield* query(setAll, [Object.keys(settings), Object.values(settings)])
      if (cell.schema !== undefined) yield* query(`SET search_path = ${client.escapeIdentifier(cell.schema)}`)
    }).pipe(Effect.timeoutOrElse({
      duration: openTimeout,
      orElse: () => Effect.fail(failed(new Error("its server does not answer")))
    }))
    return { cell, client, query, change, lost: Deferred.await(lost) }
  }
)

const makeClient = (cell: Cell) => {
  const socket = new Socket()
  const lost = Deferred.makeUnsafe<never, Refused>()
  const client = new pg.Client({
    connectionString: Redacted.value(cell.url),
    application_name: "card-rewards cells move",
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveMillis,
    stream: () => socket
  })
  const fail = (error: Error) => Deferred.doneUnsafe(lost, Effect.fail(refusal(cell)(error)))
  client.on("error", fail)
  client.on("end", () => fail(new Error("the connection was lost")))
  return { client, socket, lost }
}

const close = ({ client, socket }: ReturnType<typeof makeClient>) =>
  Effect.tryPromise(() => client.end()).pipe(
    Effect.timeoutOption(closeTimeout),
    Effect.ignore,
    Effect.andThen(Effect.sync(() => socket.destroy()))
  )

const refusal = ({ name }: Cell) => (error: unknown) => {
  // the messages of the system have addresses
  const isOfSystem = error instanceof Error && ("syscall" in error || error.message === "")
  const reason = error instanceof Error && !isOfSystem ? error.message : "its server cannot be reached"
  const code = error instanceof pg.DatabaseError ? error.code : undefined
  return new Refused({
    message: `Cell ${name}: ${reason}`,
    isAway: code === undefined,
    ...(code !== undefined && { code })
  })
}

/**
 * Streams what `select` gives in the source into columns of a table of the target. Neither this process nor a server
 * holds more of it than the buffers of two connections.
 */
export const copy = (
  source: Connection,
  target: Connection,
  { into, select }: { readonly select: string; readonly into: string }
): Effect.Effect<void, Refused> =>
  Effect.suspend(() => {
    // the stream that fails first ends the other one
    let failed: Cell | undefined
    const reading = source.client.query(to(`COPY (${select}) TO STDOUT (FORMAT binary)`))
    reading.once("error", () => failed ??= source.cell)
    const writing = target.client.query(from(`COPY ${into} FROM STDIN (FORMAT binary)`))
    writing.once("error", () => failed ??= target.cell)
    return Effect.tryPromise({
      try: (signal) => pipeline(reading, writing, { signal }),
      catch: (error) => refusal(failed ?? target.cell)(error)
    })
  })
