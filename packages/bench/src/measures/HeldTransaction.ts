import { Effect } from "effect"
import { performance } from "node:perf_hooks"
import type { SqlClient } from "effect/sql"
import { compare, meanOfFifth, type Measure, type Sample, type Size, takeTurns } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { store } from "../SpendEvents.ts"
import { onDatabase, verifyRows, workOff } from "./Backlog.ts"
import { processor, type Requirements, serviceEnvironment } from "./Competitors.ts"
import { connect, execute } from "./Connection.ts"

const without = "no open transaction"
const beside = "held transaction"

/** Integrators of the events, as in the measure of processing. */
const integrators = 10

/** Pause between two questions whether the events are processed: they should not add to what is measured. */
const pollMillis = 100

/** Processing while a transaction stays open, so that vacuum removes no dead row. */
export const heldTransaction: Measure<Requirements> = {
  name: "held-transaction",
  title: "Processing beside a held transaction",
  method: "For two minutes, 5,000 events at a time appear and are processed. Beside the second competitor a session " +
    "holds a `REPEATABLE READ` transaction open: it has a transaction id and a snapshot, and is idle, so that no row " +
    "which was deleted or updated since can be removed. The figures are means of the last fifth of the time.",
  run: Effect.fn("heldTransaction")(function*(size: Size) {
    const points: Array<{ competitor: string; second: number; value: number }> = []
    const competitor = (name: string, isHeld: boolean) => {
      const record = (second: number, value: number) => void points.push({ competitor: name, second, value })
      return { name, turn: () => Effect.scoped(processFor(name, isHeld, size, record)) }
    }
    const findings = yield* takeTurns([competitor(without, false), competitor(beside, true)], 1)
    const target = { bound: "at most", value: 1.5 } as const
    return {
      findings,
      comparisons: [compare(findings, { of: without, against: beside, metric: "events/s" }, target)],
      remarks: [],
      timeSeries: { metric: "events/s", points }
    }
  }, Effect.scoped)
}

const processFor = Effect.fnUntraced(function*(
  name: string,
  isHeld: boolean,
  size: Size,
  record: (second: number, rate: number) => void
) {
  const server = yield* Server
  const processes = yield* Processes
  const senders = { integrators, users: size.users }
  const url = yield* server.database(population({ ...senders, programs: 1, versions: 1 }))
  const running = [yield* processes.start({ entry: processor, env: serviceEnvironment(url) })]
  const count = Math.ceil(size.backlog / 4)
  let done = 0
  const turn = Effect.suspend(() => {
    const add = onDatabase(url, store(senders, "h", count, { from: done }))
    done += count
    return workOff({ name, url, running, count, add, isDone: hasProcessed(done), pollMillis })
  })
  yield* turn
  const connection = yield* connect(url)
  if (isHeld) {
    yield* execute(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current(), count(*) FROM lanes")
  }
  const samples: Array<Sample> = []
  const startedAt = performance.now()
  const elapsed = () => (performance.now() - startedAt) / 1_000
  while (elapsed() * 1_000 < size.heldTransactionMillis) {
    const sample = yield* turn
    samples.push(sample)
    record(elapsed(), sample["events/s"])
  }
  yield* verifyRows(url, name, "rewards", done)
  const last = (metric: string) => meanOfFifth(samples.map((sample) => sample[metric] ?? Number.NaN), 4)
  return {
    "events/s": last("events/s"),
    "worker CPU µs/event": last("worker CPU µs/event"),
    "PostgreSQL CPU µs/event": last("PostgreSQL CPU µs/event"),
    "events in all": done
  }
})

/** Reads the lanes: a scan of the empty queue would read all dead rows that cannot be removed. */
const hasProcessed = (count: number) => (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ processed: number }>`SELECT sum(position)::int AS processed FROM lanes`,
    ([row]) => row?.processed === count
  )
