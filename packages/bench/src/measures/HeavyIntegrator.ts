import { Effect } from "effect"
import { compare, type Measure, type Sample, type Size, takeTurns } from "../Measure.ts"
import { population, userOf } from "../Seed.ts"
import { clearing, headersOf, post, requests } from "../SpendEvents.ts"
import { verifyRows } from "./Backlog.ts"
import type { Requirements } from "./Competitors.ts"
import { execute } from "./Connection.ts"
import { costOf, costOfEvent, startMeasured } from "./Costs.ts"

/** Rewards on a page, and of each user whose pages are read. */
const pageSize = 50

const heavy = "with all of it"
const light = "without"

/** Whether an integrator that has much of everything costs more, for any of its users and for the heaviest. */
export const heavyIntegrator: Measure<Requirements> = {
  name: "heavy-integrator",
  title: "An integrator with much of everything, against one without",
  method: "One integrator has 50 programs of 100 versions, 200,000 users who owe and have a reward, and one user " +
    "with 10,000 open authorizations and 100,000 unclaimed rewards; the other has one program of one version, and " +
    "users without any of it. Both have 20,000 further users. In a turn clearings of these are posted while a lock " +
    "keeps the worker from their lanes, and are then processed; then clearings of the one user. Balances and pages " +
    "of 50 rewards are read of 20 users who have 50, and of the one user, who has at least 50 in both. Cost is the " +
    "CPU time of the service and of PostgreSQL together. That the users owe is written into their balances.",
  run: Effect.fn("heavyIntegrator")(function*(size: Size) {
    const findings = yield* takeTurns([yield* prepare(size, heavy), yield* prepare(size, light)], size.rounds, {
      warmUp: true
    })
    const target = { bound: "at most", value: 1.3 } as const
    const metrics = ["event", "post", "balance", "page of rewards"].flatMap((what) => [what, ofOne(what)])
    return {
      findings,
      comparisons: metrics.map((what) =>
        compare(findings, { of: heavy, against: light, metric: `CPU µs/${what}` }, target)
      ),
      remarks: []
    }
  }, Effect.scoped)
}

const ofOne = (what: string): string => `${what} of the one user`

const prepare = Effect.fnUntraced(function*(size: Size, name: typeof heavy | typeof light) {
  const { backlog, heavy: { readers }, users } = size
  const [programs, versions, owing] = name === heavy ? [size.programs, size.versions, size.heavy.owing] : [1, 1, 0]
  const senders = { integrators: 1, users }
  const one = { integrators: 1, users: 1, firstUser: users }
  const content = population({ integrators: 1, users: users + 1 + owing, programs, versions })
  const { connection, fill, pass, read, stored, url } = yield* startMeasured(name, content)
  const everyReader = Math.floor(users / readers)

  yield* fill(one, "o", name === heavy ? size.heavy.rewards : pageSize)
  let authorizations = 0
  if (name === heavy) {
    authorizations = size.heavy.authorizations
    yield* fill(one, "a", authorizations, "authorization")
    yield* fill({ integrators: 1, users: owing, firstUser: users + 1 }, "w", owing)
    yield* execute(connection, `UPDATE user_balances SET owed = 1 WHERE user_id > '${userOf(users)}'`)
  }
  yield* pass(requests(senders, "r", everyReader), readers * pageSize)
  yield* execute(connection, "VACUUM ANALYZE")

  let reads = 0
  const reader = (path: string) => () => `/v1/users/${userOf(reads++ % readers * everyReader)}/${path}`
  // a turn is short: without it V8 compiles until the third one, in which an event costs half as much as in the first
  yield* pass(requests(senders, "w"), size.warmUpRequests)
  yield* read(Math.ceil(size.warmUpRequests / 4), reader("balance"), "\"balances\"")
  yield* read(Math.ceil(size.warmUpRequests / 4), reader(`rewards?limit=${pageSize}`), "revision")

  const posts = requests(senders, "p")
  const turn = Effect.fnUntraced(function*(round: number) {
    const count = Math.ceil(backlog / 10)
    // of fewer events one collection of garbage is a quarter of the cost
    const events = Math.ceil(backlog / 2)
    let made = 0
    const postOfOne = () => post(clearing(1, users, `${round}-${made++}`), headersOf(0))
    const theOne = (path: string) => () => `/v1/users/${userOf(users)}/${path}`
    const ofAll = yield* pass(posts, events)
    const ofTheOne = yield* pass(postOfOne, events)
    const sample = {
      "CPU µs/event": costOfEvent(ofAll.processed),
      "CPU µs/post": costOf(ofAll.posted),
      "CPU µs/balance": yield* read(count, reader("balance"), "\"balances\""),
      "CPU µs/page of rewards": yield* read(count, reader(`rewards?limit=${pageSize}`), "revision"),
      [`CPU µs/${ofOne("event")}`]: costOfEvent(ofTheOne.processed),
      [`CPU µs/${ofOne("post")}`]: costOf(ofTheOne.posted),
      [`CPU µs/${ofOne("balance")}`]: yield* read(count, theOne("balance"), "\"balances\""),
      [`CPU µs/${ofOne("page of rewards")}`]: yield* read(count, theOne(`rewards?limit=${pageSize}`), "revision")
    } satisfies Sample
    yield* verifyRows(url, name, "rewards", stored() - authorizations)
    return sample
  })
  return { name, turn }
})
