import { Effect } from "effect"
import { performance } from "node:perf_hooks"
import { Client, type Dispatcher } from "undici"
import { generateLoad, type Request } from "../Load.ts"
import { formatFigure, InvalidRun, type Measure, type Size, undisturbed, verify } from "../Measure.ts"
import { keyOf, userOf } from "../Seed.ts"
import { clearing, headersOf, post, requests } from "../SpendEvents.ts"
import { accepted, connections, type Requirements } from "./Competitors.ts"
import { withArrivals } from "./Receivers.ts"
import * as System from "./System.ts"

/** The load as a share of the maximum rate. */
const share = 0.2

/** Events that are followed at a time, each of another user. */
const followers = 4
const pollMillis = 2
/** The longest pause of a follower; a random pause keeps followers from synchronising with the worker's polls. */
const maxPauseMillis = 150
const timeoutMillis = 10_000

/** The greatest p50 and p99 in milliseconds that are met. */
type Targets = readonly [p50: number, p99: number]

interface Variant {
  readonly name: string
  readonly title: string
  /** How many integrators there are, each with an endpoint. */
  readonly integrators: (size: Size) => number
  readonly reward: Targets
  readonly webhook: Targets
}

/** The time from the response to a spend event until its reward is visible and its webhook received. */
const measureOf = ({ integrators, name, reward, title, webhook }: Variant): Measure<Requirements> => ({
  name,
  title,
  method: "One api and one worker at 20 % of their maximum rate on this machine, which is measured from the first of " +
    "many posts until the last is processed. Beside that load four events at a time are followed, each of another " +
    "user: from the 202 until a page of one reward, read every 2 ms, shows the reward, and until the receiver has " +
    "the headers of the webhook, by one monotonic clock; and how long the 202 took. The load, the service and the " +
    "receiver share the machine.",
  run: Effect.fn(name)(function*(size: Size) {
    const system = yield* System.start(name, size, () => Effect.void, integrators(size))
    const rate = yield* System.maximumRate(system, size)
    const posted: Array<Latencies> = []
    const visible: Array<Latencies> = []
    const received: Array<Latencies> = []
    let turns = 0
    for (let round = 0; round < size.rounds; round++) {
      const next = Effect.suspend(() => turn(system, rate * share, size, turns++))
      const followed = yield* undisturbed(name, next)
      posted.push(latenciesOf(followed.map((one) => one.answeredAt - one.sentAt)))
      visible.push(latenciesOf(followed.map((one) => one.visibleAt - one.answeredAt)))
      received.push(latenciesOf(followed.map((one) => one.receivedAt - one.answeredAt)))
    }
    const answeredPost = { competitor: "post → 202", samples: posted }
    const visibleReward = { competitor: "202 → reward visible", samples: visible }
    const receivedWebhook = { competitor: "202 → webhook received", samples: received }
    return {
      findings: [answeredPost, visibleReward, receivedWebhook],
      comparisons: [...atMost(visibleReward, reward), ...atMost(receivedWebhook, webhook)],
      remarks: [
        `The maximum rate was ${formatFigure(rate)} clearings per second; the load was ${formatFigure(rate * share)}.`
      ]
    }
  }, Effect.scoped)
})

/** With ten integrators. */
export const latency = measureOf({
  name: "latency",
  title: "From the 202 to the reward and to the webhook",
  integrators: () => 10,
  reward: [15, 60],
  webhook: [20, 80]
})

/** With as many integrators as the size says, all of whom have purchases. */
export const latencyOfMany = measureOf({
  name: "latency-integrators",
  title: "From the 202 to the reward and to the webhook, with 1,000 integrators",
  integrators: (size) => size.integrators,
  reward: [30, 100],
  webhook: [30, 100]
})

const atMost = (
  { competitor, samples }: { readonly competitor: string; readonly samples: ReadonlyArray<Latencies> },
  [p50, p99]: Targets
) =>
  ([["p50 ms", p50], ["p99 ms", p99]] as const).map(([metric, value]) => ({
    name: `${competitor}, ${metric}`,
    values: samples.map((sample) => sample[metric]),
    target: { bound: "at most", value } as const
  }))

type Latencies = ReturnType<typeof latenciesOf>

/** Percentiles of nanoseconds, as milliseconds. */
export const latenciesOf = (nanos: ReadonlyArray<bigint>) => {
  const millis = nanos.map((one) => Number(one) / 1e6).toSorted((a, b) => a - b)
  const percentile = (part: number) => millis[Math.ceil(millis.length * part) - 1] ?? Number.NaN
  return { "p50 ms": percentile(0.5), "p99 ms": percentile(0.99), "longest ms": percentile(1), events: millis.length }
}

/** A followed event; the times are nanoseconds of the monotonic clock. */
interface Followed {
  readonly id: string
  readonly sentAt: bigint
  readonly answeredAt: bigint
  readonly visibleAt: bigint
}

const turn = Effect.fnUntraced(function*(system: System.System, rate: number, size: Size, round: number) {
  const { integrators, users } = system.senders
  const load = generateLoad({
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
  const [result, ...visible] = yield* Effect.all([load, ...following], { concurrency: "unbounded" })
  yield* verify(`${system.name}: wrong responses`, result.wrong, 0)
  return yield* withArrivals(system.name, system.receiver, visible.flat())
})

/** Posts an event of a user, waits until its reward is visible, and repeats this after a pause. */
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
  const followed: Array<Followed> = []
  do {
    const id = `${prefix}-${followed.length}`
    const sentAt = process.hrtime.bigint()
    yield* send(client, post(clearing(integrators, user, id), headersOf(user % integrators)), "\"duplicate\":false")
    const answeredAt = process.hrtime.bigint()
    while (!(yield* send(client, page)).includes(`"${id}"`)) {
      if (Number(process.hrtime.bigint() - answeredAt) > timeoutMillis * 1e6) {
        return yield* new InvalidRun({ message: `latency: no reward of ${id}` })
      }
      yield* Effect.sleep(pollMillis)
    }
    followed.push({ id, sentAt, answeredAt, visibleAt: process.hrtime.bigint() })
    yield* Effect.sleep(Math.random() * maxPauseMillis)
  } while (performance.now() < endsAt)
  return followed
}, Effect.scoped)

/** Sends a request and returns the body of its response, which must contain `expected`. */
const send = (client: Client, sent: Request, expected = "") =>
  Effect.tryPromise({
    try: async () => {
      const answer = await client.request(sent as Dispatcher.RequestOptions)
      return await answer.body.text()
    },
    catch: (error) => new InvalidRun({ message: `latency: ${sent.path}: ${error}` })
  }).pipe(
    Effect.filterOrFail(
      (text) => text.includes(expected),
      (text) => new InvalidRun({ message: `latency: ${sent.path}: ${text}` })
    )
  )
