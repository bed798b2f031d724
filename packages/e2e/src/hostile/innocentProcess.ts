/**
 * The innocent integrator, in a process of its own so that an attacker's client does not delay its measurements. It
 * posts one clearing every 100 ms whether or not the one before was answered, polls its rewards, receives its webhooks,
 * and prints a {@link Line} for each step. Its program, users and endpoint are made first.
 */
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import * as RawClient from "@card-rewards/testing/RawClient"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect } from "effect"
import { expect, iso, listen } from "../World.ts"
import { type Line, wallMillis } from "./Samples.ts"

const everyMillis = 100
const users = 64
const pollers = 4
/** Pause of a poller after an answer. */
const pollMillis = 50
/** Rewards that are read beside the expected ones: of posts in flight, or whose answer was lost. */
const spareRewards = 10
/** A timer of this period that fires so much later was held up by the machine. */
const tickMillis = 20
const stallMillis = 100
/** A post without an answer is given up after this; a client's usual time-out. */
const requestTimeoutMillis = 30_000
const leadMillis = 600_000

const integratorId = process.env["INTEGRATOR_ID"] ?? ""
const client = RawClient.make({
  baseUrl: () => process.env["BASE_URL"] ?? "",
  apiKey: process.env["API_KEY"] ?? "",
  timeoutMillis: requestTimeoutMillis
})

const print = (line: Line): void => void process.stdout.write(`${JSON.stringify(line)}\n`)

const userOf = (event: number): string => `user-${event % users}`

/** Accepted events, and those not answered yet, whose reward has not been read; by user. */
const unrewarded = new Map<string, Set<number>>()

const provision = Effect.gen(function*() {
  const { now } = JSON.parse((yield* expect(200, client.sendWithRetries("GET", "/v1/sandbox/clock"))).text)
  const begin = Date.parse(now) + leadMillis
  yield* expect(200, client.sendWithRetries("PUT", "/v1/programs/cashback/versions/1", {
    ...plainProgram,
    caps: { perMonth: `1${"0".repeat(40)}`, categories: [] },
    holdingPeriodDays: 30,
    effectiveFrom: iso(begin)
  }))
  yield* expect(200, client.sendWithRetries("PUT", "/v1/sandbox/clock", { now: iso(begin) }))
  yield* Effect.forEach(Array.from({ length: users }, (_, index) => userOf(index)), (userId) =>
    expect(200, client.sendWithRetries("PUT", `/v1/users/${userId}`, {})), { concurrency: 8, discard: true })
  yield* expect(200, client.sendWithRetries("POST", "/v1/sandbox/deposits", {
    reference: "all",
    amount: { asset: "USDC", amount: `1${"0".repeat(18)}` }
  }))
  return begin
})

const post = Effect.fnUntraced(function*(event: number, occurredAt: number) {
  const userId = userOf(event)
  const own = unrewarded.get(userId) ?? new Set()
  unrewarded.set(userId, own.add(event))
  const answer = yield* client.send("POST", "/v1/spend-events", {
    kind: "clearing",
    integratorId,
    userId,
    externalTransactionId: `${event}`,
    amount: { currency: "USD", amount: "12345" },
    merchant: { descriptor: "Shop", mcc: "5411" },
    occurredAt: iso(occurredAt)
  }).pipe(
    Effect.map(({ status }) => `${status}`),
    Effect.catchTag("NoAnswer", ({ reason }) => Effect.succeed(`no answer (${reason})`))
  )
  print({ kind: "answered", event, at: wallMillis(), answer })
  if (answer !== "202") own.delete(event)
})

const posting = Effect.fnUntraced(function*(occurredAt: number) {
  const beganAt = wallMillis()
  for (let event = 0;; event++) {
    const at = beganAt + event * everyMillis
    yield* Effect.sleep(Math.max(0, at - wallMillis()))
    print({ kind: "intended", event, at })
    yield* Effect.forkChild(post(event, occurredAt))
  }
})

const watchMachine = Effect.gen(function*() {
  while (true) {
    const startedAt = wallMillis()
    yield* Effect.sleep(tickMillis)
    const at = wallMillis()
    const millis = at - startedAt - tickMillis
    if (millis > stallMillis) print({ kind: "stalled", at, millis })
  }
})

/** Reads the rewards of the users who expect some, each user by one poller at a time, in turn. */
const polling = (read: Set<string>): Effect.Effect<never> =>
  Effect.gen(function*() {
    while (true) {
      const userId = [...unrewarded].find(([user, events]) => events.size > 0 && !read.has(user))?.[0]
      if (userId !== undefined) {
        read.add(userId)
        yield* readRewards(userId)
        read.delete(userId)
      }
      yield* Effect.sleep(pollMillis)
    }
  })

const readRewards = Effect.fnUntraced(function*(userId: string) {
  const own = unrewarded.get(userId) ?? new Set()
  // behind the others until the next read
  unrewarded.delete(userId)
  unrewarded.set(userId, own)
  // the newest come first, and a user's events are applied in order
  const limit = Math.min(100, own.size + spareRewards)
  const answer = yield* client.send("GET", `/v1/users/${userId}/rewards?limit=${limit}`).pipe(
    Effect.catchTag("NoAnswer", () => Effect.succeed({ status: 0, text: "" }))
  )
  if (answer.status !== 200) return
  const page: { readonly rewards: ReadonlyArray<{ readonly id: string }> } = JSON.parse(answer.text)
  for (const { id } of page.rewards) {
    const event = eventOf(id)
    if (own.delete(event)) print({ kind: "rewarded", event, at: wallMillis() })
  }
})

/** A reward's id is `rw:integrator:user:kind:transaction:program`; none of these has a colon here. */
const eventOf = (rewardId: string): number => Number(rewardId.split(":")[4])

const main = Effect.gen(function*() {
  const receiver = yield* WebhookReceiver
  receiver.answer(({ body }) => {
    const { data, kind }: { readonly kind: string; readonly data: { readonly id: string } } = JSON.parse(body)
    if (kind.startsWith("reward.")) print({ kind: "delivered", event: eventOf(data.id), at: wallMillis() })
    return 200
  })
  const occurredAt = yield* provision
  yield* listen(client, receiver.url)
  const read = new Set<string>()
  const polls = Array.from({ length: pollers }, () => polling(read))
  return yield* Effect.all([posting(occurredAt), watchMachine, ...polls], { concurrency: "unbounded" })
})

NodeRuntime.runMain(Effect.provide(main, WebhookReceiver.layer))
