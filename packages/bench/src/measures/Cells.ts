import { columns, value } from "@card-rewards/core/Database"
import { hashApiKey } from "@card-rewards/core/Secrets"
import { slotCount, slotExpression, slotOf } from "@card-rewards/core/Slots"
import { NodeCrypto } from "@effect/platform-node"
import { Array, Deferred, Effect, Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { performance } from "node:perf_hooks"
import { compare, type Competitor, type Measure, type Size, takeShortTurns, verify } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { integratorOf, population } from "../Seed.ts"
import { type Fill, Server } from "../Server.ts"
import { clearings, post, type Senders, store } from "../SpendEvents.ts"
import { isQueueEmpty, onDatabase } from "./Backlog.ts"
import { accepted, api, type Requirements, serviceEnvironment, underLoad, worker } from "./Competitors.ts"
import { cpuUsage } from "./CpuUsage.ts"

const pollMillis = 20

/** What it costs that the same integrators are spread over several databases, of one server here. */
export const cells: Measure<Requirements> = {
  name: "cells",
  title: "One cell, against four cells on the same server",
  method: "64 integrators are in one database, or spread over four of the same server by their slots. " +
    "One worker processes a backlog that appears in one commit for each database; one api gets posts on 64 " +
    "connections.",
  run: Effect.fn("cells")(function*(size: Size) {
    const [one, four] = [yield* competitors(1, size), yield* competitors(4, size)]
    const processing = yield* takeShortTurns([one.processing, four.processing], size, { warmUp: true })
    const ingest = yield* takeShortTurns([yield* one.ingest, yield* four.ingest], size)
    const ratio = (of: string, against: string, metric: string) =>
      compare([...processing, ...ingest], { of, against, metric }, { bound: "at least", value: 0.8 })
    return {
      findings: [...processing, ...ingest],
      comparisons: [
        ratio(four.processing.name, one.processing.name, "events/s"),
        ratio(four.name, one.name, "requests/s")
      ],
      remarks: []
    }
  }, Effect.scoped)
}

const competitors = Effect.fnUntraced(function*(count: number, size: Size) {
  const server = yield* Server
  const processes = yield* Processes
  const senders: Senders = { integrators: size.cellIntegrators, users: size.users }
  const owner = count === 1 ? "one cell" : `${count} cells`
  const fills = Array.makeBy(count, (index) => cellFill(senders, index, count))
  const databases = Effect.forEach(fills, (fill) => server.database(fill))
  const urls = yield* databases
  const running = [yield* processes.start({ entry: worker, env: environment(urls) })]
  const rows = (urls: ReadonlyArray<Redacted.Redacted>, table: string) =>
    Effect.map(Effect.forEach(urls, (url) => onDatabase(url, countOf(table))), (counts) =>
      counts.reduce((sum, one) => sum + one, 0))
  let done = 0
  const processing: Competitor<Server> = {
    name: `processing, ${owner}`,
    turn: Effect.fnUntraced(function*(round: number) {
      const beforeCommit = Effect.map(cpuUsage(running), (before) => ({ before, startedAt: performance.now() }))
      const change = storeOwned(senders, `r${round}`, size.backlog)
      const { before, startedAt } = yield* commitTogether(urls, beforeCommit, change)
      yield* Effect.forEach(urls, (url) => onDatabase(url, untilEmpty))
      const seconds = (performance.now() - startedAt) / 1_000
      const after = yield* cpuUsage(running)
      done += size.backlog
      yield* verify(`processing, ${owner}: rewards`, yield* rows(urls, "rewards"), done)
      return {
        "events/s": size.backlog / seconds,
        "worker CPU µs/event": (after.processes - before.processes) / size.backlog,
        "PostgreSQL CPU µs/event": (after.postgres - before.postgres) / size.backlog
      }
    })
  }
  const name = `ingest, ${owner}`
  const ingest = Effect.gen(function*() {
    const urls = yield* databases
    const serving = [yield* processes.serve({ entry: api, env: environment(urls) })]
    const next = clearings(senders, "a")
    const checked = (answered: number) =>
      Effect.flatMap(rows(urls, "spend_events"), (stored) => verify(`${name}: events`, stored, answered))
    const request = () => {
      const event = next()
      return post(event, ["content-type", "application/json", "x-api-key", keyOf(event.integratorId)])
    }
    return yield* underLoad({ name, size, serving, next: request, expected: accepted, checked })
  })
  return { name, processing, ingest }
})

const slotsOf = (index: number, count: number) =>
  [index * slotCount / count, (index + 1) * slotCount / count - 1] as const

const environment = (urls: ReadonlyArray<Redacted.Redacted>): Readonly<Record<string, string>> => {
  const [first] = urls
  if (first === undefined) throw new Error("no cell")
  const { DATABASE_URL, ...others } = serviceEnvironment(first)
  const cells = urls.map((url, index) =>
    `c${index}=${Redacted.value(url)}?slots=${slotsOf(index, urls.length).join("-")}`)
  return urls.length === 1 ? { DATABASE_URL: DATABASE_URL ?? "", ...others } : { CELLS: cells.join(), ...others }
}

/** An integrator's key, which begins with its slot, as those that the service makes. */
const keyOf = (id: string): string =>
  `service_sk_sandbox_${slotOf(id).toString(16).padStart(2, "0")}${Buffer.from(id).toString("hex").padStart(62, "0")}`

/** All integrators, of which only those of its slots are the cell's. */
const cellFill = (senders: Senders, index: number, count: number): Fill => {
  const base = population({ ...senders, programs: 1, versions: 1 })
  return {
    name: `${base.name}_cell_${index}_of_${count}`,
    base,
    fill: (url) =>
      Effect.orDie(onDatabase(url, Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const [first, last] = slotsOf(index, count)
        yield* sql`DELETE FROM cell_slots WHERE slot NOT BETWEEN ${value.int4(first)} AND ${value.int4(last)}`
        const ids = Array.makeBy(senders.integrators, integratorOf)
        const hashes = yield* Effect.forEach(ids, (id) => hashApiKey(Redacted.make(keyOf(id))))
        const keys = sql`unnest(${columns.text(ids)}, ${columns.bytea(hashes)}) AS t(integrator_id, key_hash)`
        yield* sql`INSERT INTO api_keys (integrator_id, name, last4, created_at)
          SELECT integrator_id, 'cells', '0000', now() FROM ${keys}`
        yield* sql`INSERT INTO api_key_hashes (key_hash, integrator_id, name)
          SELECT key_hash, integrator_id, 'cells' FROM ${keys}`
      }).pipe(Effect.provide(NodeCrypto.layerDigest))))
  }
}

/** Changes all databases, runs `beforeCommit`, and only then commits: the worker begins with all of them at once. */
const commitTogether = Effect.fnUntraced(function*<A, R>(
  urls: ReadonlyArray<Redacted.Redacted>,
  beforeCommit: Effect.Effect<A, never, R>,
  change: Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>
) {
  const allChanged = yield* Deferred.make<A>()
  let left = urls.length
  const changing = Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.gen(function*() {
      yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
      yield* change
      left -= 1
      if (left === 0) yield* Effect.flatMap(beforeCommit, (result) => Deferred.succeed(allChanged, result))
      yield* Deferred.await(allChanged)
    })))
  yield* Effect.forEach(urls, (url) => onDatabase(url, changing), { concurrency: "unbounded", discard: true })
  return yield* Deferred.await(allChanged)
})

/** Stores the clearings of the cell's own integrators. */
const storeOwned = Effect.fnUntraced(function*(senders: Senders, prefix: string, count: number) {
  const sql = yield* SqlClient.SqlClient
  const isForeign = sql.literal(`${slotExpression("integrator_id")} NOT IN (SELECT slot FROM cell_slots)`)
  yield* store(senders, prefix, count)
  yield* sql`DELETE FROM spend_event_queue WHERE ${isForeign}`
  yield* sql`DELETE FROM spend_events WHERE ${isForeign}`
})

const untilEmpty = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  while (!(yield* isQueueEmpty(sql))) yield* Effect.sleep(pollMillis)
})

const countOf = Effect.fnUntraced(function*(table: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ count: number }>`SELECT count(*)::int AS count FROM ${sql(table)}`
  return row?.count ?? 0
})
