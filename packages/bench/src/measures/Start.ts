import { Effect } from "effect"
import { performance } from "node:perf_hooks"
import {
  type Comparison,
  type Competitor,
  type Finding,
  type Measure,
  type Size,
  takeTurns,
  valuesOf
} from "../Measure.ts"
import { Processes, type Running } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { eventQueue, verifyRows, workOff } from "./Backlog.ts"
import { api, type Requirements, serviceEnvironment, worker } from "./Competitors.ts"

/** The compile cache of the other measures is off: a program that is installed anew has none. */
const withoutCache = { NODE_DISABLE_COMPILE_CACHE: "1" }

const pollMillis = 5
const maxMillis = 1_500
const maxMebibytes = 250

/** How long a process takes until it works, and its memory then. */
export const start: Measure<Requirements> = {
  name: "start",
  title: "Start of a process",
  method: "The time from its spawn until the api answers `GET /health`, and until the worker has processed an event " +
    "that was stored before. Node compiles the programs anew: there is no compile cache, as after an installation. " +
    "Memory is what is resident then.",
  run: Effect.fn("start")(function*(size: Size) {
    const server = yield* Server
    const processes = yield* Processes
    const senders = { integrators: 1, users: 1 }
    const url = yield* server.database(population({ ...senders, programs: 1, versions: 1 }))
    const env = { ...serviceEnvironment(url), ...withoutCache }

    const startApi = Effect.gen(function*() {
      const startedAt = performance.now()
      const running = yield* processes.serve({ entry: api, env })
      return yield* figures(running, performance.now() - startedAt)
    })
    let processed = 0
    const startWorker = Effect.fnUntraced(function*(number: number) {
      const queue = eventQueue(url)
      yield* queue.store(senders, `s${number}`, 1)
      const startedAt = performance.now()
      const running = yield* processes.start({ entry: worker, env })
      const wait = { name: "worker", url, running: [running], count: 1, add: Effect.void, pollMillis }
      yield* workOff({ ...wait, isDone: queue.isEmpty })
      const sample = yield* figures(running, performance.now() - startedAt)
      yield* verifyRows(url, "worker", "rewards", ++processed)
      return sample
    })
    const competitors: ReadonlyArray<Competitor<Requirements>> = [
      { name: "api", turn: () => Effect.scoped(startApi) },
      { name: "worker", turn: (number) => Effect.scoped(startWorker(number)) }
    ]
    const findings = yield* takeTurns(competitors, size.rounds)
    return {
      findings,
      comparisons: competitors.flatMap(({ name }) => [
        figure(findings, name, "ms", maxMillis),
        figure(findings, name, "MiB", maxMebibytes)
      ]),
      remarks: []
    }
  }, Effect.scoped)
}

const figures = Effect.fnUntraced(function*(running: Running, millis: number) {
  return {
    ms: millis,
    "CPU ms": (yield* running.cpuMicros) / 1_000,
    MiB: (yield* running.residentBytes) / 2 ** 20
  }
})

const figure = (findings: ReadonlyArray<Finding>, name: string, metric: string, value: number): Comparison => ({
  name: `start of ${name}, ${metric}`,
  values: valuesOf(findings, name, metric),
  target: { bound: "at most", value }
})
