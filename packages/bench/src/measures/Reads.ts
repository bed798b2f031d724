import { Effect } from "effect"
import { request } from "undici"
import { type Checkout, Checkouts, own } from "../Checkout.ts"
import type { Request } from "../Load.ts"
import { compare, type Finding, InvalidRun, type Measure, type Size, takeShortTurns } from "../Measure.ts"
import { Processes, type Serving } from "../Processes.ts"
import { integratorOf, keyOf, userOf } from "../Seed.ts"
import { Server } from "../Server.ts"
import { backlog, verifyRows } from "./Backlog.ts"
import { api, peer, processor, type Requirements, serviceEnvironment, underLoad } from "./Competitors.ts"
import { compareTelemetry, observed, startCollector } from "./Telemetry.ts"

const service = own.name
const fastify = "Fastify + pg"

/** Rewards of each user: two pages. */
const rewardsOfUser = 100

/** A user's balance, and a page of rewards. */
export const reads: Measure<Requirements> = {
  name: "reads",
  title: "Balance, and a page of 50 rewards",
  method: "Users with 100 rewards each, read in turn on 64 connections. Fastify runs the service's own query as a " +
    "prepared statement and encodes by schema. It does not check whether a reward has become due, as the service " +
    "must.",
  run: Effect.fn("reads")(function*(size: Size) {
    const processes = yield* Processes
    const checkouts = yield* Checkouts
    const users = Math.ceil(size.backlog / rewardsOfUser)
    const url = yield* earned(own, users)
    const env = serviceEnvironment(url)
    const collector = yield* startCollector
    const ours = yield* processes.serve({ entry: api, env })
    const traced = yield* processes.serve({ entry: api, env: { ...env, ...collector.env } })
    const others = yield* Effect.forEach(checkouts, Effect.fnUntraced(function*(checkout) {
      const env = serviceEnvironment(yield* earned(checkout, users))
      return { name: checkout.name, serving: yield* processes.serve({ root: checkout.root, entry: api, env }) }
    }))
    const peers = yield* processes.serve({ entry: peer("fastify"), env })
    const findings: Array<Finding> = []
    for (const what of ["balance", "rewards"]) {
      yield* verifySameContent(ours, peers, what)
      const expected = { status: 200, body: what === "balance" ? "\"balances\"" : "\"revision\"" }
      const load = (name: string, serving: Serving) =>
        ({ name, size, serving: [serving], next: next(users, what), expected })
      const name = `${service}, ${what}`
      const checked = collector.spansOf(observed(name))
      findings.push(
        ...yield* takeShortTurns([
          yield* underLoad(load(name, ours)),
          yield* underLoad({ ...load(observed(name), traced), checked }),
          ...yield* Effect.forEach(others, ({ name, serving }) => underLoad(load(`${name}, ${what}`, serving))),
          yield* underLoad(load(`${fastify}, ${what}`, peers))
        ], size)
      )
    }
    return {
      findings,
      comparisons: ["balance", "rewards"].flatMap((what) => [
        compare(
          findings,
          { of: `${service}, ${what}`, against: `${fastify}, ${what}`, metric: "requests/s" },
          { bound: "at least", value: what === "balance" ? 1.5 : 1.1 }
        ),
        compareTelemetry(findings, `${service}, ${what}`),
        ...checkouts.map(({ name }) =>
          compare(findings, { of: `${service}, ${what}`, against: `${name}, ${what}`, metric: "requests/s" }))
      ]),
      remarks: [yield* collector.verifyMetrics(observed(service))]
    }
  }, Effect.scoped)
}

const next = (users: number, what: string): () => Request => {
  let sent = 0
  const headers = ["x-api-key", keyOf(0)]
  return () => ({ method: "GET", path: `/v1/users/${userOf(sent++ % users)}/${what}`, headers })
}

/** A database whose users have rewards, which the checkout's worker has made from clearings. */
const earned = Effect.fnUntraced(function*(checkout: Checkout, users: number) {
  const processes = yield* Processes
  const server = yield* Server
  const senders = { integrators: 1, users }
  const url = yield* server.database(checkout.population({ ...senders, programs: 1, versions: 1 }))
  const name = `rewards of ${checkout.name}`
  const checked = (done: number) => verifyRows(url, name, "rewards", done)
  yield* Effect.scoped(Effect.gen(function*() {
    const program = { root: checkout.root, entry: processor, env: serviceEnvironment(url) }
    const running = [yield* processes.start(program)]
    const queue = yield* checkout.eventQueue(url)
    yield* backlog({ name, url, running, senders, count: users * rewardsOfUser, queue, checked }).turn(0)
  }))
  return url
})

/** Fails unless both respond with the same content, apart from the cursor of the next page. */
const verifySameContent = Effect.fnUntraced(function*(ours: Serving, theirs: Serving, what: string) {
  const path = `/v1/users/${userOf(0)}/${what}`
  const ask = ({ baseUrl }: Serving) =>
    Effect.tryPromise({
      try: async () => {
        const answer = await request(`${baseUrl}${path}`, { headers: { "x-api-key": keyOf(0) } })
        const { next: _, ...content } = await answer.body.json() as Record<string, unknown>
        return JSON.stringify(content)
      },
      catch: (error) => new InvalidRun({ message: `${path} of ${integratorOf(0)}: ${error}` })
    })
  const [expected, actual] = [sorted(yield* ask(ours)), sorted(yield* ask(theirs))]
  if (expected !== actual) return yield* new InvalidRun({ message: `${path}: ${actual} instead of ${expected}` })
})

/** JSON with its keys in order. */
const sorted = (json: string): string =>
  JSON.stringify(JSON.parse(json, (_, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => a < b ? -1 : 1))
      : value))
