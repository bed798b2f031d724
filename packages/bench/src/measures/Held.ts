import { Effect } from "effect"
import { performance } from "node:perf_hooks"
import type { SqlClient } from "effect/sql"
import { compare, type Measure, meanOfFifth, type Sample, type Size, takeTurns } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { store } from "../SpendEvents.ts"
import { onDatabase, verifyRows, workOff } from "./Backlog.ts"
import { connect, execute } from "./Connection.ts"
import { type Needs, processor, serviceEnvironment } from "./Contestants.ts"

const without = "no transaction open"
const held = "a transaction held open"

/** Integrators of the work, as in the measure of processing. */
const integrators = 10

/** Looking for the end must not cost what is measured. */
const pollMillis = 100

/** What a transaction that nobody ends does to processing. */
export const heldTransaction: Measure<Needs> = {
  name: "held",
  title: "Processing beside a transaction that is held open",
  method: "Events appear 5,000 at a time and are worked off, for two minutes. The second time another session has " +
    "begun a `REPEATABLE READ` transaction, has a transaction id and has read; it stays open and idle, so that no " +
    "row that was deleted or replaced since then can be removed. The figures are those of the last fifth of the " +
    "time.",
  run: Effect.fn("held")(function*(size: Size) {
    const points: Array<{ contestant: string; second: number; value: number }> = []
    const contestant = (name: string, open: boolean) => {
      const tell = (second: number, value: number) => void points.push({ contestant: name, second, value })
      return { name, turn: () => Effect.scoped(processFor(name, open, size, tell)) }
    }
    const findings = yield* takeTurns([contestant(without, false), contestant(held, true)], 1)
    const reach = { bound: "at most", value: 1.5 } as const
    return {
      findings,
      comparisons: [compare(findings, { of: without, against: held, metric: "events/s" }, reach)],
      remarks: [],
      course: { metric: "events/s", points }
    }
  }, Effect.scoped)
}

const processFor = Effect.fnUntraced(function*(
  name: string,
  open: boolean,
  size: Size,
  tell: (second: number, rate: number) => void
) {
  const server = yield* Server
  const processes = yield* Processes
  const senders = { integrators, users: size.users }
  const url = yield* server.database(population({ ...senders, programs: 1, versions: 1 }))
  const running = [yield* processes.start({ entry: processor, env: serviceEnvironment(url) })]
  const count = Math.ceil(size.backlog / 4)
  let done = 0
  const turn = Effect.suspend(() => {
    const add = onDatabase(url, store(senders, "h", count, done))
    done += count
    return workOff({ name, url, running, count, add, isDone: hasApplied(done), pollMillis })
  })
  yield* turn
  const connection = yield* connect(url)
  if (open) {
    yield* execute(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current(), count(*) FROM lanes")
  }
  const samples: Array<Sample> = []
  const startedAt = performance.now()
  for (let seconds = 0; seconds * 1_000 < size.heldMillis; seconds = (performance.now() - startedAt) / 1_000) {
    const sample = yield* turn
    samples.push(sample)
    tell((performance.now() - startedAt) / 1_000, sample["events/s"])
  }
  yield* verifyRows(url, name, "rewards", done)
  const last = (metric: string) => meanOfFifth(samples.map((sample) => sample[metric] ?? Number.NaN), 4)
  return {
    "events/s": last("events/s"),
    "worker CPU µs/event": last("worker CPU µs/event"),
    "PostgreSQL CPU µs/event": last("PostgreSQL CPU µs/event"),
    "events meanwhile": done
  }
})

/** Asked of the lanes: a look at the emptied queue would pass over all rows that cannot be removed. */
const hasApplied = (count: number) => (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ applied: number }>`SELECT sum(position)::int AS applied FROM lanes`,
    ([row]) => row?.applied === count
  )
