import { Effect } from "effect"
import { availableParallelism } from "node:os"
import {
  compare,
  type Competitor,
  type Finding,
  formatFigure,
  type Measure,
  median,
  type Sample,
  type Size,
  takeShortTurns,
  valuesOf
} from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests } from "../SpendEvents.ts"
import { backlog, verifyRows } from "./Backlog.ts"
import { accepted, api, processor, type Requirements, serviceEnvironment, underLoad } from "./Competitors.ts"
import { print, sampleWaitEvents, type WaitEvents } from "./WaitEvents.ts"

const counts = [1, 2]

/** Integrators of the events, as in the measure of processing. */
const integrators = 10

/** The share of busy cores from which on the CPU is the bottleneck. */
const saturation = 0.9

/** The throughput of one and of two workers and apis, and what limits it. */
export const processCounts: Measure<Requirements> = {
  name: "processes",
  title: "One process and two",
  method: "A backlog as in the measure of processing, for one worker and for two; posts on 64 connections, to one " +
    "api and to two. Meanwhile `pg_stat_activity` is sampled every 20 ms. Busy cores are CPU time divided by time. A " +
    "session that is not idle runs, is at the named wait event, or waits for the client that has its transaction " +
    "open.",
  run: Effect.fn("processes")(function*(size: Size) {
    const server = yield* Server
    const processes = yield* Processes
    const senders = { integrators, users: size.users }
    const fill = population({ ...senders, programs: 1, versions: 1 })
    const sampled = new Map<string, WaitEvents>()

    const workers = Effect.fnUntraced(function*(workers: number) {
      const name = nameOf(workers, "worker")
      const url = yield* server.database(fill)
      const start = processes.start({ entry: processor, env: serviceEnvironment(url) })
      const running = yield* Effect.forEach(Array.from({ length: workers }), () => start)
      const checked = (done: number) => verifyRows(url, name, "rewards", done)
      const { turn } = backlog({ name, url, running, senders, count: size.backlog, checked })
      const waitEvents = waitEventsOf(sampled, name)
      return { name, turn: (round: number) => sampleWaitEvents(url, waitEvents, Effect.map(turn(round), perEvent)) }
    })

    const apis = Effect.fnUntraced(function*(apis: number) {
      const name = nameOf(apis, "api")
      const url = yield* server.database(fill)
      const start = processes.serve({ entry: api, env: serviceEnvironment(url) })
      const serving = yield* Effect.forEach(Array.from({ length: apis }), () => start)
      const checked = (answered: number) => verifyRows(url, name, "spend_events", answered)
      const next = requests(senders, "a")
      const { turn } = yield* underLoad({ name, size, serving, next, expected: accepted, checked })
      const waitEvents = waitEventsOf(sampled, name)
      return { name, turn: () => sampleWaitEvents(url, waitEvents, Effect.map(turn(), perEvent)) }
    })

    const findings: Array<Finding> = []
    for (const make of [workers, apis]) {
      const competitors: Array<Competitor<Requirements>> = []
      for (const count of counts) competitors.push(yield* make(count))
      findings.push(...yield* takeShortTurns(competitors, size, { warmUp: true }))
    }
    return {
      findings,
      comparisons: ["worker", "api"].map((what) =>
        compare(findings, { of: nameOf(2, what), against: nameOf(1, what), metric: "events/s" })
      ),
      remarks: findings.map((finding) => explain(finding, waitEventsOf(sampled, finding.competitor)))
    }
  }, Effect.scoped)
}

const nameOf = (count: number, what: string): string => count === 1 ? `1 ${what}` : `${count} ${what}s`

const waitEventsOf = (sampled: Map<string, WaitEvents>, name: string): WaitEvents => {
  const waitEvents = sampled.get(name) ?? new Map()
  sampled.set(name, waitEvents)
  return waitEvents
}

/** The same metrics for workers and apis: a post is an event. */
const perEvent = (sample: Sample) => ({
  "events/s": sample["events/s"] ?? sample["requests/s"] ?? Number.NaN,
  "processes' CPU µs/event": sample["worker CPU µs/event"] ?? sample["server CPU µs/request"] ?? Number.NaN,
  "PostgreSQL CPU µs/event": sample["PostgreSQL CPU µs/event"] ?? sample["PostgreSQL CPU µs/request"] ?? Number.NaN,
  "generator CPU µs/event": sample["generator CPU µs/request"] ?? 0
})

/** What limits the rate: the cores, or what the sessions wait for. */
const explain = (finding: Finding, waitEvents: WaitEvents): string => {
  const of = (metric: keyof ReturnType<typeof perEvent>) => median(valuesOf([finding], finding.competitor, metric))
  const rate = of("events/s")
  const parts = [
    ["the processes", of("processes' CPU µs/event")],
    ["PostgreSQL", of("PostgreSQL CPU µs/event")],
    ["the generator", of("generator CPU µs/event")]
  ] as const
  const cores = availableParallelism()
  const micros = parts.reduce((sum, [, each]) => sum + each, 0)
  const busy = rate * micros / 1e6
  const shares = parts.filter(([, each]) => each > 0).map(([part, each]) => `${part} ${(rate * each / 1e6).toFixed(2)}`)
  const limit = busy >= saturation * cores
    ? `CPU is the bottleneck: ${formatFigure(micros)} µs per event allow at most ` +
      `${formatFigure(cores * 1e6 / micros)} per second.`
    : `${(cores - busy).toFixed(2)} cores are idle.`
  return `${finding.competitor}: ${busy.toFixed(2)} of ${cores} cores are busy (${shares.join(", ")}). ${limit} ` +
    `PostgreSQL's sessions: ${print(waitEvents)}.`
}
