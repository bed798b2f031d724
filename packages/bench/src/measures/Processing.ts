import { Effect, type Redacted } from "effect"
import { type Checkout, Checkouts, own } from "../Checkout.ts"
import { compare, compareSum, type Competitor, type Measure, type Size, takeTurns } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { keysOf, type Senders, store } from "../SpendEvents.ts"
import { backlog, onDatabase, verifyRows, workOff } from "./Backlog.ts"
import { bareInsert } from "./BareInsert.ts"
import { peer, processor, type Requirements, serviceEnvironment } from "./Competitors.ts"
import { awaitReady, bossQueue, graphileQueue, type Queue } from "./Queues.ts"

const service = own.name
const graphile = "graphile-worker, same work"
const boss = "pg-boss, same work"
const graphileNothing = "graphile-worker, no-op"
const bossNothing = "pg-boss, no-op"
const bare = "bare rows by unnest"

/** Integrators of the backlog: with fewer the jobs of the peers would wait for each other's lock on a vault. */
const integrators = 10

/** The peers get a fifth of the events, because they process one at a time. */
const peerDivisor = 5

/** From stored events to rewards, by one worker process. */
export const processing: Measure<Requirements> = {
  name: "processing",
  title: "Stored event → reward, journal, balance and event rows, by one worker",
  method: "A backlog of clearings of 10 integrators appears in one commit; the time until all are processed is " +
    "measured. The peers have a job for each event. Its handler reads what the event needs, increments the vault's " +
    "counters and writes all rows, with three prepared statements. The no-ops are the same libraries with the " +
    "fastest settings of their documentation and a handler that does nothing. The bare rows are those of rewards, " +
    "journal and events, inserted by `unnest` over one connection, 500 events in a transaction, " +
    "without any rule.",
  run: Effect.fn("processing")(function*(size: Size) {
    const server = yield* Server
    const checkouts = yield* Checkouts
    const findings = yield* takeTurns([
      yield* worker(size, own),
      ...yield* Effect.forEach(checkouts, (checkout) => worker(size, checkout)),
      yield* library(size, graphile, "graphileWorker", "event", graphileQueue),
      yield* library(size, boss, "pgBoss", "event", bossQueue),
      yield* library(size, graphileNothing, "graphileWorker", "nothing", graphileQueue),
      yield* library(size, bossNothing, "pgBoss", "nothing", bossQueue),
      yield* bareInsert({
        name: bare,
        url: yield* server.database(population(contentOf(size))),
        integrators,
        users: size.users,
        count: size.backlog
      })
    ], size.rounds, { warmUp: true })
    const ratioTo = (against: string, value?: number) =>
      compare(
        findings,
        { of: service, against, metric: "events/s" },
        value === undefined ? undefined : { bound: "at least", value }
      )
    return {
      findings,
      comparisons: [
        ratioTo(graphile, 9),
        ratioTo(boss, 9),
        ratioTo(graphileNothing, 0.2),
        ratioTo(bossNothing),
        ratioTo(bare, 0.65),
        ...[graphile, boss, bare].map((against) =>
          compareSum(findings, {
            of: service,
            against,
            name: "CPU µs/event",
            metrics: ["worker CPU µs/event", "PostgreSQL CPU µs/event"]
          })
        ),
        ...checkouts.map(({ name }) => ratioTo(name))
      ],
      remarks: []
    }
  }, Effect.scoped)
}

const sendersOf = ({ users }: Size): Senders => ({ integrators, users })
const contentOf = (size: Size) => ({ ...sendersOf(size), programs: 1, versions: 1, endpoints: true })

/** The worker of a checkout. The rows of another one are only counted by its rewards: their schema may differ. */
const worker = Effect.fnUntraced(function*(size: Size, { eventQueue, name, population, root }: Checkout) {
  const server = yield* Server
  const processes = yield* Processes
  const url = yield* server.database(population(contentOf(size)))
  const running = [yield* processes.start({ root, entry: processor, env: serviceEnvironment(url) })]
  const queue = yield* eventQueue(url)
  const checked = (done: number) =>
    root === own.root ? verifyOutcomes(url, name, done) : verifyRows(url, name, "rewards", done)
  return backlog({ name, url, running, senders: sendersOf(size), count: size.backlog, queue, checked })
})

/** A queue library whose jobs process events, or do nothing. */
const library = Effect.fnUntraced(function*(
  size: Size,
  name: string,
  entry: string,
  task: "event" | "nothing",
  queue: Queue
) {
  const server = yield* Server
  const processes = yield* Processes
  const senders = sendersOf(size)
  const url = yield* server.database(population(contentOf(size)))
  const running = [yield* processes.start({ entry: peer(entry), env: serviceEnvironment(url) })]
  yield* awaitReady(url, queue)
  const count = task === "event" ? Math.ceil(size.backlog / peerDivisor) : size.backlog
  let done = 0
  return {
    name,
    turn: Effect.fnUntraced(function*(round: number) {
      if (task === "event") yield* onDatabase(url, store(senders, `r${round}`, count))
      const add = queue.add(url, task, keysOf(senders, `r${round}`, count))
      const sample = yield* workOff({ name, url, running, count, add, isDone: queue.isDone })
      done += count
      if (task === "event") yield* verifyOutcomes(url, name, done)
      yield* queue.checkDone(url, name, done)
      return sample
    })
  } satisfies Competitor<Requirements>
})

/** Verifies the rows of every event; each integrator's deposit has one journal entry and one event more. */
const verifyOutcomes = Effect.fnUntraced(function*(url: Redacted.Redacted, name: string, done: number) {
  yield* verifyRows(url, name, "rewards", done)
  yield* verifyRows(url, name, "journal", done + integrators)
  yield* verifyRows(url, name, "events", done + integrators)
})
