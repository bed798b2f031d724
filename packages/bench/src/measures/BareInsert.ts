import { Effect, type Redacted, type Scope } from "effect"
import { performance } from "node:perf_hooks"
import type { Client } from "pg"
import { type Competitor, InvalidRun, verify } from "../Measure.ts"
import { bodyOf, type EventKey } from "../peers/EventWork.ts"
import { Server } from "../Server.ts"
import { keysOf } from "../SpendEvents.ts"
import { connect } from "./Connection.ts"

/** Events of one transaction: as many as the service's worker takes. */
const batchSize = 500

/** A competitor that only inserts the rows which processed events leave, from arrays of columns by `unnest`. */
export const bareInsert = Effect.fnUntraced(function*(options: {
  readonly name: string
  readonly url: Redacted.Redacted
  readonly integrators: number
  readonly users: number
  readonly count: number
}): Effect.fn.Return<Competitor<Server>, InvalidRun, Scope.Scope> {
  const client = yield* connect(options.url)
  return {
    name: options.name,
    turn: Effect.fnUntraced(function*(round) {
      const server = yield* Server
      const keys = keysOf(options, `r${round}`, options.count)
      const postgresBefore = yield* server.cpuMicros
      const cpuBefore = process.cpuUsage()
      const startedAt = performance.now()
      const written = yield* Effect.tryPromise({
        try: () => writeAll(client, keys, (round + 1) * options.count),
        catch: (error) => new InvalidRun({ message: `${options.name}: ${error}` })
      })
      const seconds = (performance.now() - startedAt) / 1_000
      const cpu = process.cpuUsage(cpuBefore)
      yield* verify(`${options.name}: rows`, written, options.count * statements.length)
      return {
        "events/s": options.count / seconds,
        "worker CPU µs/event": (cpu.user + cpu.system) / options.count,
        "PostgreSQL CPU µs/event": ((yield* server.cpuMicros) - postgresBefore) / options.count
      }
    })
  }
})

const writeAll = async (client: Client, keys: ReadonlyArray<EventKey>, from: number): Promise<number> => {
  let rows = 0
  for (let start = 0; start < keys.length; start += batchSize) {
    const part = keys.slice(start, start + batchSize)
    const columns = columnsOf(part, from + start)
    await client.query("BEGIN")
    for (const { name, parameters, text } of statements) {
      rows += (await client.query({ name, text, values: parameters.map((column) => columns[column]) })).rowCount ?? 0
    }
    await client.query("COMMIT")
  }
  return rows
}

const columnsOf = (keys: ReadonlyArray<EventKey>, from: number) => {
  const now = new Date().toISOString()
  const earned = "123450000"
  const ids = keys.map((_, index) => `evt_0123456789abcdef${(from + index).toString(16).padStart(12, "0")}`)
  return {
    integrator: keys.map((key) => key.integratorId),
    user: keys.map((key) => key.userId),
    transaction: keys.map((key) => key.externalTransactionId),
    /** Unique, and above the numbers of the deposits. */
    number: keys.map((_, index) => from + index + 1_000),
    time: keys.map(() => now),
    earned: keys.map(() => earned),
    id: ids,
    body: keys.map((key, index) => bodyOf(ids[index] ?? "", key, { cents: "12345", earned, occurredAt: now }))
  }
}

/** A prepared statement and the columns that are its parameters. */
const statement = (name: string, text: string, ...parameters: ReadonlyArray<keyof ReturnType<typeof columnsOf>>) => ({
  name,
  text,
  parameters
})

const statements = [
  statement(
    "bare_rewards",
    `INSERT INTO rewards (integrator_id, user_id, kind, external_transaction_id, program_id, program_version, creation,
      asset, state, purchase_at, currency, spend, refunded_spend, earned, amount, paid, recovered, clawed_back,
      month_used_before, category_used_before, claimable_at, created_at, updated_at, revision)
    SELECT i, u, 'clearing', t, 'program-0', 1, n, 'USDC', 'Pending', at, 'USD', 12345, 0, earned, earned, 0, 0, 0,
      0, 0, at + interval '14 days', at, at, 1
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::timestamptz[], $6::numeric[])
      AS t(i, u, t, n, at, earned)`,
    "integrator",
    "user",
    "transaction",
    "number",
    "time",
    "earned"
  ),
  statement(
    "bare_journal",
    `INSERT INTO journal (integrator_id, entry, recorded_at, asset, from_account, to_account, amount, user_id, reward)
    SELECT i, n, at, 'USDC', 'free', 'pending', earned, u, n
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[], $5::numeric[]) AS t(i, u, n, at, earned)`,
    "integrator",
    "user",
    "number",
    "time",
    "earned"
  ),
  statement(
    "bare_events",
    `INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body, reward)
    SELECT i, n, id, 'reward.pending', at, at, body, n
    FROM unnest($1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::text[]) AS t(i, n, id, at, body)`,
    "integrator",
    "number",
    "id",
    "time",
    "body"
  )
]
