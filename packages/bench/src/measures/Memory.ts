import { queuedEvents } from "@card-rewards/core/Processing/Segments"
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { performance } from "node:perf_hooks"
import { generateLoad, type LoadOptions } from "../Load.ts"
import { formatFigure, type InvalidRun, meanOfFifth, type Measure, type Size, verify } from "../Measure.ts"
import { keyOf, userOf } from "../Seed.ts"
import { requests, storeMany } from "../SpendEvents.ts"
import { onDatabase } from "./Backlog.ts"
import { accepted, connections, type Requirements } from "./Competitors.ts"
import * as System from "./System.ts"

/** Samples over the time of sustained load. */
const sampleCount = 600
/** The time with a backlog, as a share of the time of sustained load. */
const backlogShare = 0.1
/** Posts of the sustained load, as a share of the maximum rate. */
const sustainedShare = 0.5
/** Reads per post. */
const readShare = 0.1
/** Posts during a backlog, as a share of the maximum rate. */
const backlogPostShare = 0.1

const maxMebibytes = 250

/** Resident memory at one moment, in MiB. */
interface Memory {
  readonly second: number
  readonly api: number
  readonly worker: number
}

const parts = ["api", "worker"] as const

/** Resident memory of api and worker, over time and during a backlog. */
export const memory: Measure<Requirements> = {
  name: "memory",
  title: "Memory of api and worker",
  method: "One api and one worker that also delivers, for 10 minutes: posts at half of their maximum rate on this " +
    "machine, so that no backlog grows, and a tenth as many reads. Resident memory is read from `/proc` every " +
    "second; the second fifth of the time is the base, because by then the code is compiled and the caches are full. " +
    "Then twice one minute with new processes, while the worker processes as fast as it can and the api gets posts, " +
    "reads and every second a request for the backlog's size: with up to 10 thousand stored events waiting, refilled " +
    "as soon as half of them are processed, and with up to a million.",
  run: Effect.fn("memory")(function*(size: Size) {
    const { rate, samples } = yield* Effect.scoped(sustained(size))
    const [small, large] = size.memoryBacklogs
    const few = yield* Effect.scoped(duringBacklog(size, small, rate))
    const many = yield* Effect.scoped(duringBacklog(size, large, rate))
    const of = (memories: ReadonlyArray<Memory>, part: typeof parts[number], fifth: number) =>
      meanOfFifth(memories.map((memory) => memory[part]), fifth)
    const finding = (when: string, memories: ReadonlyArray<Memory>) =>
      parts.map((part) => ({
        competitor: `${part}, ${when}`,
        samples: [{
          "MiB in the last fifth": of(memories, part, 4),
          "MiB in the second fifth": of(memories, part, 1),
          "MiB at most": Math.max(...memories.map((memory) => memory[part]))
        }]
      }))
    const target = { bound: "at most", value: 1.1 } as const
    const thousands = (count: number) => count.toLocaleString("en-US")
    return {
      findings: [
        ...finding("sustained load", samples),
        ...finding(`backlog of ${thousands(small)}`, few),
        ...finding(`backlog of ${thousands(large)}`, many)
      ],
      comparisons: parts.flatMap((part) => [
        {
          name: `${part}: most of the time and of both backlogs, MiB`,
          values: [Math.max(...[...samples, ...few, ...many].map((memory) => memory[part]))],
          target: { bound: "at most", value: maxMebibytes } as const
        },
        {
          name: `${part}: last / second fifth of the time`,
          values: [of(samples, part, 4) / of(samples, part, 1)],
          target
        },
        {
          name: `${part}: backlog of ${thousands(large)} / of ${thousands(small)}`,
          values: [of(many, part, 4) / of(few, part, 4)],
          target
        }
      ]),
      remarks: [`The maximum rate was ${formatFigure(rate)} clearings per second.`],
      timeSeries: {
        metric: "MiB",
        points: samples.flatMap((memory) =>
          parts.map((part) => ({ competitor: part, second: memory.second, value: memory[part] })))
      }
    }
  })
}

const sustained = Effect.fnUntraced(function*(size: Size) {
  const system = yield* System.start("sustained load", size, () => Effect.void)
  const rate = yield* System.maximumRate(system, size)
  const millis = size.memoryMillis
  const postRate = rate * sustainedShare
  const load = [post(system, millis, postRate), read(system, millis, postRate * readShare)]
  const samples = yield* sampleMemory(system, millis, Effect.all(load, { concurrency: "unbounded" }))
  return { rate, samples }
})

/** A worker that always has a backlog, and an api that gets posts, reads and requests for the size of the backlog. */
const duringBacklog = Effect.fnUntraced(function*(size: Size, backlog: number, rate: number) {
  const system = yield* System.start(`backlog of ${backlog}`, size, (url, senders) =>
    onDatabase(url, storeMany(senders, "b", backlog)))
  const millis = size.memoryMillis * backlogShare
  const requestRate = rate * backlogPostShare
  const headers = ["x-api-key", keyOf(0)]
  const next = () => ({ method: "GET" as const, path: "/v1/spend-events/backlog", headers })
  const expected = { status: 200, body: "\"stored\"" }
  const load = [
    post(system, millis, requestRate),
    read(system, millis, requestRate),
    traffic(system, { millis, rate: 1, connections: 1, next, expected })
  ]
  const busy = Effect.raceFirst(Effect.all(load, { concurrency: "unbounded" }), refill(system, Math.ceil(backlog / 2)))
  return yield* sampleMemory(system, millis, busy)
})

const post = (system: System.System, millis: number, rate: number) =>
  traffic(system, { millis, rate, connections, next: requests(system.senders, "m"), expected: accepted })

const read = (system: System.System, millis: number, rate: number) => {
  let requests = 0
  const { integrators, users } = system.senders
  const next = () => {
    const user = requests++ % users
    const what = requests % 2 === 0 ? "balance" : "rewards"
    const headers = ["x-api-key", keyOf(user % integrators)]
    return { method: "GET" as const, path: `/v1/users/${userOf(user)}/${what}`, headers }
  }
  return traffic(system, { millis, rate, connections: 16, next, expected: { status: 200 } })
}

const traffic = Effect.fnUntraced(function*(
  { api, name }: System.System,
  options: Omit<LoadOptions, "baseUrls">
) {
  const result = yield* generateLoad({ ...options, baseUrls: [api.baseUrl] })
  yield* verify(`${name}: wrong responses`, result.wrong, 0)
})

/** Between two looks at a backlog, which read `count` rows: a worker processes a small part of them meanwhile. */
const pauseMillis = (count: number) => Math.max(50, count / 100)

/** Stores `count` more events whenever no more than `count` are left. */
const refill = ({ senders, url }: System.System, count: number) =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (let filled = 0;; filled++) {
        const left = yield* sql`SELECT FROM ${sql.literal(queuedEvents)} q OFFSET ${count} LIMIT 1`
        if (left.length === 0) yield* storeMany(senders, `again${filled}`, count)
        yield* Effect.sleep(pauseMillis(count))
      }
    })
  )

/** Samples the memory of both processes while an effect runs. */
const sampleMemory = Effect.fnUntraced(function*<A, R>(
  { api, worker }: System.System,
  millis: number,
  during: Effect.Effect<A, InvalidRun, R>
) {
  const samples: Array<Memory> = []
  const startedAt = performance.now()
  const sample = Effect.gen(function*() {
    const mebi = 2 ** 20
    samples.push({
      second: (performance.now() - startedAt) / 1_000,
      api: (yield* api.residentBytes) / mebi,
      worker: (yield* worker.residentBytes) / mebi
    })
  })
  const sampling = Effect.repeat(sample, Schedule.spaced(Math.max(10, millis / sampleCount)))
  yield* Effect.raceFirst(during, Effect.andThen(sampling, Effect.never))
  return samples
})
