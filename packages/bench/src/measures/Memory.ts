import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { performance } from "node:perf_hooks"
import { drive } from "../Load.ts"
import { figure, meanOfFifth, type Measure, type Size, verify, type Void } from "../Measure.ts"
import { keyOf, userOf } from "../Seed.ts"
import { requests, storeMany } from "../SpendEvents.ts"
import { onDatabase } from "./Backlog.ts"
import { accepted, connections, type Needs } from "./Contestants.ts"
import * as System from "./System.ts"

/** Looks at the memory over the whole time. */
const looks = 600
/** The time beside a backlog, as a share of the time of sustained load. */
const backlogShare = 0.1
/** Posts of the sustained load, as a share of the maximum rate. */
const sustainedShare = 0.5
/** Reads for each post. */
const readShare = 0.1
/** Posts beside a backlog, as a share of the maximum rate; the worker does as much as it can. */
const backlogPostShare = 0.1

interface Memory {
  readonly second: number
  readonly api: number
  readonly worker: number
}

const parts = ["api", "worker"] as const

/** What api and worker hold, over time and beside a backlog. */
export const memory: Measure<Needs> = {
  name: "memory",
  title: "Memory of api and worker",
  method: "One api and one worker that also delivers, for 10 minutes: posts at half of the greatest rate that both " +
    "were seen to do on this machine, so that nothing piles up, and a tenth as many reads. Resident memory is taken " +
    "from the system every second; the second fifth of the time stands for the beginning, when all is compiled and " +
    "warm. Then two times one minute with fresh processes, the worker at its limit, and the api asked for the " +
    "backlog's size every second beside posts and reads: with 5 to 10 thousand stored events waiting all the time, " +
    "and with a million.",
  run: Effect.fn("memory")(function*(size: Size) {
    const { rate, seen } = yield* Effect.scoped(sustained(size))
    const [small, large] = size.memoryBacklogs
    const few = yield* Effect.scoped(besideBacklog(size, small, rate))
    const many = yield* Effect.scoped(besideBacklog(size, large, rate))
    const of = (memories: ReadonlyArray<Memory>, part: typeof parts[number], fifth: number) =>
      meanOfFifth(memories.map((memory) => memory[part]), fifth)
    const finding = (when: string, memories: ReadonlyArray<Memory>) =>
      parts.map((part) => ({
        contestant: `${part}, ${when}`,
        samples: [{
          "MiB in the last fifth": of(memories, part, 4),
          "MiB in the second fifth": of(memories, part, 1),
          "MiB at most": Math.max(...memories.map((memory) => memory[part]))
        }]
      }))
    const reach = { bound: "at most", value: 1.1 } as const
    const thousands = (count: number) => count.toLocaleString("en-US")
    return {
      findings: [
        ...finding("sustained load", seen),
        ...finding(`backlog of ${thousands(small)}`, few),
        ...finding(`backlog of ${thousands(large)}`, many)
      ],
      comparisons: parts.flatMap((part) => [
        { what: `${part}: last / second fifth of the time`, ratios: [of(seen, part, 4) / of(seen, part, 1)], reach },
        {
          what: `${part}: backlog of ${thousands(large)} / of ${thousands(small)}`,
          ratios: [of(many, part, 4) / of(few, part, 4)],
          reach
        }
      ]),
      remarks: [`The greatest rate was ${figure(rate)} clearings a second.`],
      course: {
        metric: "MiB",
        points: seen.flatMap((memory) =>
          parts.map((part) => ({ contestant: part, second: memory.second, value: memory[part] })))
      }
    }
  })
}

const sustained = Effect.fnUntraced(function*(size: Size) {
  const system = yield* System.start("sustained load", size, () => Effect.void)
  const rate = yield* System.maximumRate(system, size)
  const millis = size.memoryMillis
  const posted = rate * sustainedShare
  const load = [posting(system, millis, posted), reading(system, millis, posted * readShare)]
  const seen = yield* watched(system, millis, Effect.all(load, { concurrency: "unbounded" }))
  return { rate, seen }
})

/** A worker that never catches up, or nearly does, and an api that is asked how much is left. */
const besideBacklog = Effect.fnUntraced(function*(size: Size, backlog: number, rate: number) {
  const system = yield* System.start(`backlog of ${backlog}`, size, (url, senders) =>
    onDatabase(url, storeMany(senders, "b", backlog)))
  const millis = size.memoryMillis * backlogShare
  const posted = rate * backlogPostShare
  const headers = ["x-api-key", keyOf(0)]
  const asked = () => ({ method: "GET" as const, path: "/v1/spend-events/backlog", headers })
  const expected = { status: 200, body: "\"stored\"" }
  const load = [
    posting(system, millis, posted),
    reading(system, millis, posted),
    traffic(system, { millis, rate: 1, connections: 1, next: asked, expected })
  ]
  const busy = Effect.raceFirst(Effect.all(load, { concurrency: "unbounded" }), refill(system, Math.ceil(backlog / 2)))
  return yield* watched(system, millis, busy)
})

const posting = (system: System.System, millis: number, rate: number) =>
  traffic(system, { millis, rate, connections, next: requests(system.senders, "m"), expected: accepted })

const reading = (system: System.System, millis: number, rate: number) => {
  let asked = 0
  const { integrators, users } = system.senders
  const next = () => {
    const user = asked++ % users
    const what = asked % 2 === 0 ? "balance" : "rewards"
    const headers = ["x-api-key", keyOf(user % integrators)]
    return { method: "GET" as const, path: `/v1/users/${userOf(user)}/${what}`, headers }
  }
  return traffic(system, { millis, rate, connections: 16, next, expected: { status: 200 } })
}

const traffic = Effect.fnUntraced(function*(
  { api, name }: System.System,
  options: Omit<Parameters<typeof drive>[0], "baseUrls">
) {
  const driven = yield* drive({ ...options, baseUrls: [api.baseUrl] })
  yield* verify(`${name}: wrong answers`, driven.wrong, 0)
})

/** Stores as many again whenever fewer are left. */
const refill = ({ senders, url }: System.System, count: number) =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (let filled = 0;; filled++) {
        const left = yield* sql`SELECT FROM spend_event_queue OFFSET ${count} LIMIT 1`
        if (left.length === 0) yield* storeMany(senders, `again${filled}`, count)
        yield* Effect.sleep("1 second")
      }
    })
  )

/** Looks at both processes' memory for as long as something runs. */
const watched = Effect.fnUntraced(function*<A, R>(
  { api, worker }: System.System,
  millis: number,
  during: Effect.Effect<A, Void, R>
) {
  const seen: Array<Memory> = []
  const startedAt = performance.now()
  const look = Effect.gen(function*() {
    const mebi = 2 ** 20
    seen.push({
      second: (performance.now() - startedAt) / 1_000,
      api: (yield* api.residentBytes) / mebi,
      worker: (yield* worker.residentBytes) / mebi
    })
  })
  const looking = Effect.repeat(look, Schedule.spaced(Math.max(10, millis / looks)))
  yield* Effect.raceFirst(during, Effect.andThen(looking, Effect.never))
  return seen
})
