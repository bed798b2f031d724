import { Effect } from "effect"
import { performance } from "node:perf_hooks"
import { Client, type Dispatcher, request } from "undici"
import { drive, type Request } from "../Load.ts"
import { figure, type Measure, type Size, verify, Void } from "../Measure.ts"
import { keyOf, userOf } from "../Seed.ts"
import { clearing, headersOf, post, requests } from "../SpendEvents.ts"
import { accepted, connections, type Needs } from "./Contestants.ts"
import * as System from "./System.ts"

/** Of the greatest rate. */
const share = 0.2

/** Events that are followed at the same time, each of a user of its own. */
const followers = 4
const pollMillis = 5
/** A follower pauses for up to so long, so that none keeps step with the worker's looks. */
const pauseMillis = 150
const patienceMillis = 10_000

/** How long an integrator waits for what a spend event brings. */
export const latency: Measure<Needs> = {
  name: "latency",
  title: "From the 202 to the reward and to the webhook",
  method: "One api and one worker at 20 % of the greatest rate that both together were seen to do on this machine: " +
    "from the first of many posts until the last is processed. Beside that load four events at a time are followed, " +
    "each of another user: from the 202 until a page of one reward, asked for every 5 ms, shows it, and until the " +
    "receiver has the headers of its webhook, by one monotonic clock. The load, the service and the receiver share " +
    "the machine.",
  run: Effect.fn("latency")(function*(size: Size) {
    const system = yield* System.start("latency", size, () => Effect.void)
    const rate = yield* System.maximumRate(system, size)
    const visible: Array<Latencies> = []
    const received: Array<Latencies> = []
    for (let round = 0; round < size.rounds; round++) {
      const followed = yield* turn(system, rate * share, size, round)
      visible.push(latenciesOf(followed.map((one) => one.visibleAt - one.answeredAt)))
      received.push(latenciesOf(followed.map((one) => one.receivedAt - one.answeredAt)))
    }
    const findings = [
      { contestant: "202 → reward visible", samples: visible },
      { contestant: "202 → webhook received", samples: received }
    ]
    return {
      findings,
      comparisons: findings.flatMap((finding) => [reach(finding, "p50 ms", 100), reach(finding, "p99 ms", 500)]),
      remarks: [`The greatest rate was ${figure(rate)} clearings a second, so the load was ${figure(rate * share)}.`]
    }
  }, Effect.scoped)
}

const reach = (
  { contestant, samples }: { readonly contestant: string; readonly samples: ReadonlyArray<Latencies> },
  metric: keyof Latencies,
  value: number
) => ({
  what: `${contestant}, ${metric}`,
  ratios: samples.map((sample) => sample[metric]),
  reach: { bound: "at most", value } as const
})

type Latencies = ReturnType<typeof latenciesOf>

const latenciesOf = (nanos: ReadonlyArray<bigint>) => {
  const millis = nanos.map((one) => Number(one) / 1e6).toSorted((a, b) => a - b)
  const percentile = (part: number) => millis[Math.ceil(millis.length * part) - 1] ?? Number.NaN
  return { "p50 ms": percentile(0.5), "p99 ms": percentile(0.99), "longest ms": percentile(1), events: millis.length }
}

interface Seen {
  readonly id: string
  readonly answeredAt: bigint
  readonly visibleAt: bigint
}

const turn = Effect.fnUntraced(function*(system: System.System, rate: number, size: Size, round: number) {
  const { integrators, users } = system.senders
  const load = drive({
    baseUrls: [system.api.baseUrl],
    connections,
    millis: size.latencyMillis,
    rate,
    next: requests({ integrators, users: users - followers }, `l${round}`),
    expected: accepted
  })
  const endsAt = performance.now() + size.latencyMillis
  const following = Array.from({ length: followers }, (_, index) =>
    follower(system, users - 1 - index, `${System.followed}${round}-${index}`, endsAt))
  const [driven, ...seen] = yield* Effect.all([load, ...following], { concurrency: "unbounded" })
  yield* verify("latency: wrong answers", driven.wrong, 0)
  return yield* withArrivals(system, seen.flat())
})

/** Posts an event of a user, waits for its reward, and begins again after a pause. */
const follower = Effect.fnUntraced(function*(
  { api, senders: { integrators } }: System.System,
  user: number,
  prefix: string,
  endsAt: number
) {
  const client = yield* Effect.acquireRelease(
    Effect.sync(() => new Client(api.baseUrl)),
    (client) => Effect.promise(() => client.destroy())
  )
  const page: Request = {
    method: "GET",
    path: `/v1/users/${userOf(user)}/rewards?limit=1`,
    headers: ["x-api-key", keyOf(user % integrators)]
  }
  const seen: Array<Seen> = []
  do {
    const id = `${prefix}-${seen.length}`
    yield* ask(client, post(clearing(integrators, user, id), headersOf(user % integrators)), "\"duplicate\":false")
    const answeredAt = process.hrtime.bigint()
    while (!(yield* ask(client, page)).includes(`"${id}"`)) {
      if (Number(process.hrtime.bigint() - answeredAt) > patienceMillis * 1e6) {
        return yield* new Void({ message: `latency: no reward of ${id}` })
      }
      yield* Effect.sleep(pollMillis)
    }
    seen.push({ id, answeredAt, visibleAt: process.hrtime.bigint() })
    yield* Effect.sleep(Math.random() * pauseMillis)
  } while (performance.now() < endsAt)
  return seen
}, Effect.scoped)

const ask = (client: Client, what: Request, holds = "") =>
  Effect.tryPromise({
    try: async () => {
      const answer = await client.request(what as Dispatcher.RequestOptions)
      return await answer.body.text()
    },
    catch: (error) => new Void({ message: `latency: ${what.path}: ${error}` })
  }).pipe(
    Effect.filterOrFail(
      (text) => text.includes(holds),
      (text) => new Void({ message: `latency: ${what.path}: ${text}` })
    )
  )

/** When each one's webhook came; waits for those that are still under way. */
const withArrivals = Effect.fnUntraced(function*({ receiver }: System.System, seen: ReadonlyArray<Seen>) {
  const endsAt = performance.now() + patienceMillis
  while (true) {
    const arrivals = yield* Effect.tryPromise({
      try: async () => {
        const answer = await request(`${receiver.baseUrl}/arrivals`)
        return await answer.body.json() as Readonly<Record<string, string>>
      },
      catch: (error) => new Void({ message: `latency: the receiver does not answer: ${error}` })
    })
    const all = seen.flatMap((one) => {
      const at = arrivals[one.id]
      return at === undefined ? [] : [{ ...one, receivedAt: BigInt(at) }]
    })
    if (all.length === seen.length) return all
    if (performance.now() > endsAt) yield* verify("latency: webhooks", all.length, seen.length)
    yield* Effect.sleep(pollMillis)
  }
})
