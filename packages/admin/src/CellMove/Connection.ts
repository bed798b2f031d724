import type { Cell } from "@card-rewards/core/Cells"
import { Effect, Redacted, type Scope } from "effect"
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
}

/** Values have the same text, moves no deadlines and what is committed is stored, whatever the servers' settings. */
const settings = [
  "client_encoding = 'UTF8'",
  "timezone = 'UTC'",
  "datestyle = 'ISO'",
  "bytea_output = 'hex'",
  "synchronous_commit = on",
  "statement_timeout = 0",
  "idle_in_transaction_session_timeout = 0"
]

/** Opens a connection, which ends with the scope. The driver of core has no COPY, hence another one here. */
export const connect = (cell: Cell): Effect.Effect<Connection, Refused, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.gen(function*() {
      const client = new pg.Client({
        connectionString: Redacted.value(cell.url),
        application_name: "card-rewards cells move",
        connectionTimeoutMillis: 5_000,
        keepAlive: true
      })
      // a connection that is lost fails its next statement
      client.on("error", () => undefined)
      const failed = refusal(cell)
      const run = <Row extends object>(text: string, values: ReadonlyArray<unknown> = []) =>
        Effect.tryPromise({ try: () => client.query<Row>(text, [...values]), catch: failed })
      const query = <Row extends object>(text: string, values?: ReadonlyArray<unknown>) =>
        Effect.map(run<Row>(text, values), ({ rows }): ReadonlyArray<Row> => rows)
      const change = (text: string, values?: ReadonlyArray<unknown>) =>
        Effect.map(run(text, values), ({ rowCount }) => rowCount ?? 0)
      yield* Effect.tryPromise({ try: () => client.connect(), catch: failed })
      yield* Effect.forEach(settings, (setting) => query(`SET ${setting}`))
      if (cell.schema !== undefined) yield* query(`SET search_path = ${client.escapeIdentifier(cell.schema)}`)
      return { cell, client, query, change }
    }),
    ({ client }) => Effect.ignore(Effect.promise(() => client.end()))
  )

const refusal = ({ name }: Cell) => (error: unknown) => {
  const reason = error instanceof Error && error.message !== "" ? error.message : "is away"
  return new Refused({ message: `Cell ${name}: ${reason}` })
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
  Effect.tryPromise({
    try: (signal) =>
      pipeline(
        source.client.query(to(`COPY (${select}) TO STDOUT (FORMAT binary)`)),
        target.client.query(from(`COPY ${into} FROM STDIN (FORMAT binary)`)),
        { signal }
      ),
    catch: refusal(target.cell)
  })
