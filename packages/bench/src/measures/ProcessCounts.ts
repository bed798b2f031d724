import { Effect } from "effect"
import { availableParallelism } from "node:os"
import {
  compare,
  type Contestant,
  figure,
  type Finding,
  type Measure,
  median,
  type Sample,
  type Size,
  takeTurns,
  valuesOf
} from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests } from "../SpendEvents.ts"
import { backlog, verifyRows } from "./Backlog.ts"
import { accepted, api, type Needs, processor, serviceEnvironment, underLoad } from "./Contestants.ts"
import * as Waits from "./Waits.ts"

const counts = [1, 2]

/** Integrators of the work, as in the measure of processing. */
const integrators = 10

/** A share of the cores from which on they count as used up. */
const usedUp = 0.9

/** What a second worker, and a second api, bring on this machine. */
export const processCounts: Measure<Needs> = {
  name: "processes",
  title: "One process and two",
  method: "A backlog as in the measure of processing, for one worker and for two; posts on 64 connections, to one " +
    "api and to two. Meanwhile PostgreSQL's sessions are looked at every 20 ms. What is said of them is computed: " +
    "busy cores are processor time over time; a session that is not idle is at work, waits for what PostgreSQL " +
    "names, or waits for the process that holds its transaction.",
  run: Effect.fn("processes")(function*(size: Size) {
    const server = yield* Server
    const processes = yield* Processes
    const senders = { integrators, users: size.users }
    const fill = population({ ...senders, programs: 1, versions: 1 })
    const waits = new Map<string, Waits.Waits>()

    const workers = Effect.fnUntraced(function*(workers: number) {
      const name = nameOf(workers, "worker")
      const url = yield* server.database(fill)
      const start = processes.start({ entry: processor, env: serviceEnvironment(url) })
      const running = yield* Effect.forEach(Array.from({ length: workers }), () => start)
      const checked = (done: number) => verifyRows(url, name, "rewards", done)
      const { turn } = backlog({ name, url, running, senders, count: size.backlog, checked })
      const seen = seenOf(waits, name)
      return { name, turn: (round: number) => Waits.watching(url, seen, Effect.map(turn(round), perSecond)) }
    })

    const apis = Effect.fnUntraced(function*(apis: number) {
      const name = nameOf(apis, "api")
      const url = yield* server.database(fill)
      const start = processes.serve({ entry: api, env: serviceEnvironment(url) })
      const serving = yield* Effect.forEach(Array.from({ length: apis }), () => start)
      const checked = (answered: number) => verifyRows(url, name, "spend_events", answered)
      const next = requests(senders, "a")
      const { turn } = yield* underLoad({ name, size, serving, next, expected: accepted, checked })
      const seen = seenOf(waits, name)
      return { name, turn: () => Waits.watching(url, seen, Effect.map(turn(), perSecond)) }
    })

    const findings: Array<Finding> = []
    for (const make of [workers, apis]) {
      const contestants: Array<Contestant<Needs>> = []
      for (const count of counts) contestants.push(yield* make(count))
      findings.push(...yield* takeTurns(contestants, size.rounds, { warmUp: true }))
    }
    return {
      findings,
      comparisons: ["worker", "api"].map((what) =>
        compare(findings, { of: nameOf(2, what), against: nameOf(1, what), metric: "events/s" })
      ),
      remarks: findings.map((finding) => explain(finding, seenOf(waits, finding.contestant)))
    }
  }, Effect.scoped)
}

const nameOf = (count: number, what: string): string => count === 1 ? `1 ${what}` : `${count} ${what}s`

const seenOf = (waits: Map<string, Waits.Waits>, name: string): Waits.Waits => {
  const seen = waits.get(name) ?? new Map()
  waits.set(name, seen)
  return seen
}

/** Both kinds of turns in the same words; a post is an event. */
const perSecond = (sample: Sample) => ({
  "events/s": sample["events/s"] ?? sample["requests/s"] ?? Number.NaN,
  "processes' CPU µs/event": sample["worker CPU µs/event"] ?? sample["server CPU µs/request"] ?? Number.NaN,
  "PostgreSQL CPU µs/event": sample["PostgreSQL CPU µs/event"] ?? sample["PostgreSQL CPU µs/request"] ?? Number.NaN,
  "generator CPU µs/event": sample["generator CPU µs/request"] ?? 0
})

/** Where it stops: at the cores, or at what the sessions wait for. */
const explain = (finding: Finding, seen: Waits.Waits): string => {
  const of = (metric: keyof ReturnType<typeof perSecond>) => median(valuesOf([finding], finding.contestant, metric))
  const rate = of("events/s")
  const parts = [
    ["the processes", of("processes' CPU µs/event")],
    ["PostgreSQL", of("PostgreSQL CPU µs/event")],
    ["the generator", of("generator CPU µs/event")]
  ] as const
  const cores = availableParallelism()
  const micros = parts.reduce((sum, [, each]) => sum + each, 0)
  const busy = rate * micros / 1e6
  const shares = parts.filter(([, each]) => each > 0).map(([who, each]) => `${who} ${(rate * each / 1e6).toFixed(2)}`)
  const stop = busy >= usedUp * cores
    ? `They are used up: at ${figure(micros)} µs an event they do ${figure(cores * 1e6 / micros)} a second at most.`
    : `${(cores - busy).toFixed(2)} cores are left.`
  return `${finding.contestant}: ${busy.toFixed(2)} of ${cores} cores are busy (${shares.join(", ")}). ${stop} ` +
    `PostgreSQL's sessions: ${Waits.print(seen)}.`
}
