import { processAll } from "@card-rewards/testing/EventProcessing"
import type { Answer } from "@card-rewards/testing/HttpExchange"
import { clearing, enroll, publish, type Send, setClock } from "@card-rewards/testing/Requests"
import { make as seeded, type SeededRandom } from "@card-rewards/testing/SeededRandom"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import { connect } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import * as TokenBuckets from "../src/Pipeline/TokenBuckets.ts"

const path = "/v1/spend-events/batch"
const options = { excludeTestServices: true } as const
const off = { ingest: "off", read: "off", manage: "off", auth: "off" } as const

type Event = Readonly<Record<string, unknown>>

const users = ["ann", "bob", "b:clearing:t"]
const kinds = ["authorization", "incremental_authorization", "clearing", "reversal", "refund"]

/** An event of one of few users and transactions, so that many are duplicates, conflicts, or not to be accepted. */
const randomEvent = (random: SeededRandom): Event => {
  const kind = random.pick(kinds)
  const event = clearing({
    kind,
    userId: random.pick(["ann", ...users, "nobody"]),
    externalTransactionId: `t${random.below(6)}`,
    amount: { currency: random.pick(["USD", "EUR"]), amount: random.pick(["100", "0100", "250"]) },
    occurredAt: random.chance(0.1) ? "2199-01-01T00:00:00Z" : "2099-12-10T00:00:00.000Z",
    ...(kind === "refund" ? { originalTransactionId: `t${random.below(6)}` } : {}),
    ...(kind === "authorization" || kind === "refund" ? {} : { authorizationId: `t${random.below(6)}` })
  })
  return random.chance(0.15) ? { ...event, ...random.pick(mistakes) } : event
}

/** An event with the identity of one of the last ten, often with the same content. */
const repeatedEvent = (random: SeededRandom, events: ReadonlyArray<Event>): Event => {
  const event = random.pick(events.slice(-10))
  if (random.chance(0.4)) return event
  return { ...event, ...random.pick(otherContents) }
}

const otherContents: ReadonlyArray<Event> = [
  { amount: { currency: "USD", amount: "100" } },
  { amount: { currency: "USD", amount: "250" } },
  { occurredAt: "2099-12-10T00:00:00Z" },
  { occurredAt: "2199-01-01T00:00:00Z" },
  { merchant: { descriptor: "Shop", mcc: "5411", country: "DE" } }
]

/** Events of which about half have the identity of an earlier one. */
const randomEvents = (random: SeededRandom, count: number): ReadonlyArray<Event> => {
  const events: Array<Event> = []
  while (events.length < count) {
    events.push(events.length > 0 && random.chance(0.5) ? repeatedEvent(random, events) : randomEvent(random))
  }
  return events
}

const mistakes: ReadonlyArray<Event> = [
  { integratorId: "somebody" },
  { userId: "" },
  { more: 1 },
  { merchant: { descriptor: "Shop", mcc: "541" } },
  { kind: "purchase", amount: null },
  { integratorId: "somebody", occurredAt: "2199-01-01T00:00:00Z" }
]

const resultOf = ({ body, status }: Answer): unknown => status === 202 ? { status, ...body } : { status, error: body }

/** What processing made of an integrator's events, user by user; between users there is no order. */
const effectsOf = Effect.fnUntraced(function*({ send }: { readonly send: Send }, integratorId: string) {
  const { spendEvents } = (yield* send("GET", "/v1/spend-events?state=waiting&limit=100")).body
  const waiting = Map.groupBy(
    spendEvents as ReadonlyArray<{ readonly id: string; readonly event: Event }>,
    ({ event }) => event["userId"]
  )
  const effects: Array<string> = []
  for (const user of users) {
    effects.push((yield* send("GET", `/v1/users/${user}/balance`)).text)
    const { rewards } = (yield* send("GET", `/v1/users/${user}/rewards?limit=100`)).body
    for (const { amount, id, refundedSpend } of rewards as ReadonlyArray<Event>) {
      effects.push(JSON.stringify({ id, amount, refundedSpend }))
    }
    effects.push(...waiting.get(user)?.map(({ id }) => id) ?? [])
  }
  return effects.map((effect) => effect.replaceAll(`:${integratorId}:`, "::"))
})

/** As printed for another integrator. */
const renamed = (value: unknown, from: string, to: string): unknown =>
  JSON.parse(JSON.stringify(value).replaceAll(`:${from}:`, `:${to}:`))

/** Consecutive parts of at most 30. */
const parts = (random: SeededRandom, events: ReadonlyArray<Event>): ReadonlyArray<ReadonlyArray<Event>> => {
  if (events.length === 0) return []
  const length = random.integer(1, 30)
  return [events.slice(0, length), ...parts(random, events.slice(length))]
}

layer(TestApi.withProcessing(), options)("batches of spend events", (it) => {
  let stories = 0
  it.effect.prop("are answered, and processed, as their events would be alone", [Schema.Int], ([seed]) =>
    Effect.gen(function*() {
      const random = seeded(seed)
      const story = ++stories
      const [single, batched] = [`single${story}`, `batched${story}`]
      const alone = yield* newIntegrator(single)
      const together = yield* newIntegrator(batched)
      for (const { send } of [alone, together]) {
        for (const user of users) yield* send(...enroll(user))
        yield* send(...publish("p", 1))
        yield* send(...setClock("2099-12-15T00:00:00.000Z"))
      }
      const events = randomEvents(random, 90)
      const ofIntegrator = (event: Event, name: string) =>
        event["integratorId"] === "acme" ? { ...event, integratorId: name } : event
      const expected: Array<unknown> = []
      for (const event of events) {
        expected.push(resultOf(yield* alone.send("POST", "/v1/spend-events", ofIntegrator(event, single))))
      }
      const actual: Array<unknown> = []
      for (const part of parts(random, events)) {
        const { body, status } = yield* together.send("POST", path, {
          events: part.map((event) => ofIntegrator(event, batched))
        })
        assert.strictEqual(status, 200)
        actual.push(...body["results"] as ReadonlyArray<unknown>)
      }
      assert.deepStrictEqual(renamed(actual, batched, single), expected)
      yield* processAll
      assert.deepStrictEqual(yield* effectsOf(together, batched), yield* effectsOf(alone, single))
    }), { arbitrary: { runs: 20 } })

  it.effect("are taken in the order of the list for each user, however many are under way, of two integrators", () =>
    Effect.gen(function*() {
      const clients = [yield* newIntegrator("ordered"), yield* newIntegrator("beside")] as const
      for (const { send } of clients) yield* Effect.forEach(["u0", "u1", "u2"], (user) => send(...enroll(user)))
      const list = (integratorId: string, batch: number) =>
        Array.from({ length: 400 }, (_, index) =>
          clearing({
            integratorId,
            userId: `u${index % 3}`,
            // neither in the order of the ids
            externalTransactionId: `b${batch}-${(index * 7919) % 400}-${index}`
          }))
      const answers = yield* Effect.forEach(
        Array.from({ length: 6 }, (_, batch) => clients.map((client) => ({ ...client, batch }))).flat(),
        ({ batch, integratorId, send }) => send("POST", path, { events: list(integratorId, batch) }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map(({ status }) => status), Array.from({ length: 12 }, () => 200))
      const sql = yield* SqlClient.SqlClient
      for (const { integratorId } of clients) {
        const rows = yield* sql<{ batch: string; userId: string; indexes: string }>`
          SELECT split_part(external_transaction_id, '-', 1) AS batch, user_id,
            string_agg(split_part(external_transaction_id, '-', 3), ',' ORDER BY arrival) AS indexes
          FROM spend_events WHERE integrator_id = ${integratorId} GROUP BY 1, 2`
        assert.strictEqual(rows.length, 18)
        for (const { indexes, userId } of rows) {
          const own = Array.from({ length: 400 }, (_, index) => index).filter((index) => userId === `u${index % 3}`)
          assert.strictEqual(indexes, own.join(","))
        }
      }
    }))

  it.effect("of 1 to 500 events and up to 1 MiB are accepted; other bodies are refused as a whole", () =>
    Effect.gen(function*() {
      const { integratorId, send } = yield* newIntegrator("limits")
      yield* send(...enroll("ann"))
      const events = (count: number, descriptor = "Shop") =>
        Array.from({ length: count }, (_, index) =>
          clearing({ integratorId, externalTransactionId: `t${index}`, merchant: { descriptor, mcc: "5411" } }))
      const accepted = yield* send("POST", path, { events: events(500, "é".repeat(200)) })
      assert.isAbove(JSON.stringify(events(500, "é".repeat(200))).length, 131_072)
      assert.strictEqual(accepted.status, 200, accepted.text)
      const refused: ReadonlyArray<readonly [json: unknown, message: string]> = [
        [{ events: [] }, "$.events: expected a value with a length of at least 1"],
        [{ events: events(501) }, "$.events: expected a value with a length of at most 500"],
        [{ events: events(1), more: 1 }, "$.more: is not known"],
        [{}, "$.events: is missing"],
        [[], "$: expected an object"],
        [{ events: events(500, "é".repeat(1_100)) }, "expected a body of at most 1048576 bytes"]
      ]
      for (const [json, message] of refused) {
        const { body, status } = yield* send("POST", path, json)
        assert.deepStrictEqual([status, body["part"], body["message"]], [400, "body", message])
      }
    }))
})

layer(TestApi.layer({ limits: { ...off, ingest: { perSecond: 1, burst: 10 } } }), options)("a batch's rate", (it) => {
  it.effect("is the number of its events: where that is too many, 429 and nothing is stored", () =>
    Effect.gen(function*() {
      const { integratorId, send } = yield* newIntegrator("limited")
      yield* send(...enroll("ann"))
      const batch = (first: number, count: number) =>
        send("POST", path, {
          events: Array.from({ length: count }, (_, index) =>
            clearing({ integratorId, externalTransactionId: `t${first + index}` }))
        })
      const six = yield* batch(0, 6)
      assert.deepStrictEqual([six.status, six.headers["ratelimit"]], [200, `"ingest";r=0;t=1`])
      const refused = yield* batch(6, 6)
      assert.strictEqual(refused.status, 429)
      assert.include(["1", "2"], refused.headers["retry-after"])
      const sql = yield* SqlClient.SqlClient
      const [stored] = yield* sql<{ count: number }>`SELECT count(*)::int AS count FROM spend_events`
      assert.strictEqual(stored?.count, 6)
      assert.strictEqual((yield* batch(6, 4)).status, 200, "the refused one took no token")
    }))

  it.effect("beyond the burst is paid off later", () =>
    Effect.gen(function*() {
      const { integratorId, send } = yield* newIntegrator("large")
      yield* send(...enroll("ann"))
      const events = (name: string, count: number) =>
        Array.from({ length: count }, (_, index) =>
          clearing({ integratorId, externalTransactionId: `${name}${index}` }))
      assert.strictEqual((yield* send("POST", path, { events: events("a", 30) })).status, 200)
      const refused = yield* send("POST", "/v1/spend-events", clearing({ integratorId }))
      assert.strictEqual(refused.status, 429)
      assert.include(["20", "21"], refused.headers["retry-after"])
    }))

  it.effect("is by its bytes until its events are counted: where that is too many, 429 before the body arrives", () =>
    Effect.gen(function*() {
      const { port } = yield* TestApi
      const { integratorId, key, send } = yield* newIntegrator("unread")
      yield* send(...enroll("ann"))
      assert.strictEqual((yield* send("POST", path, { events: [clearing({ integratorId })] })).status, 200)
      const answerTo = (bytes: number, timeout: Promise<unknown>) =>
        Effect.promise(async () => {
          const socket = connect(port, "127.0.0.1").setEncoding("utf8")
          const headers = `host: x\r\nx-api-key: ${key}\r\ncontent-type: application/json\r\n`
          socket.write(`POST ${path} HTTP/1.1\r\n${headers}content-length: ${bytes}\r\n\r\n`)
          const answer = await Promise.race([once(socket, "data"), timeout])
          socket.destroy()
          return `${answer}`
        })
      assert.match(yield* answerTo(10 * 4_096, new Promise(() => {})), /^HTTP\/1\.1 429 /)
      assert.strictEqual(yield* answerTo(4_096, sleep(200, "none yet")), "none yet")
    }))

  it.effect("is by its bytes where its events cannot be counted", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("malformed")
      assert.strictEqual((yield* send("POST", path, ["x".repeat(10 * 4_096)])).status, 400)
      assert.strictEqual((yield* send("POST", path, { events: [] })).status, 429)
    }))

  it.effect("is by its bytes also where these are not announced", () =>
    Effect.gen(function*() {
      const { port } = yield* TestApi
      const { key, send } = yield* newIntegrator("in chunks")
      const body = JSON.stringify(["x".repeat(10 * 4_096)])
      const headers = { "x-api-key": key, "content-type": "application/json" }
      const { status } = yield* Effect.promise(() =>
        fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", headers, body: inChunks(body), duplex: "half" }))
      assert.strictEqual(status, 400)
      assert.strictEqual((yield* send("POST", path, { events: [] })).status, 429)
    }))
})

const inChunks = (body: string) => new Blob([body]).stream()

describe("a bucket", () => {
  it("gives more than it holds only where it is full", () => {
    const buckets = TokenBuckets.make({ perSecond: 1, burst: 10, maxBuckets: 10 })
    assert.isTrue(buckets.take("a", 1, 0).allowed)
    assert.deepStrictEqual(buckets.take("a", 30, 0), { allowed: false, left: 9, nextAfterMillis: 1_000 })
    assert.deepStrictEqual(buckets.take("a", 30, 1_000), { allowed: true, left: 0, nextAfterMillis: 30_000 })
    assert.isFalse(buckets.take("a", 1, 20_999).allowed)
    assert.isTrue(buckets.take("a", 1, 22_001).allowed)
  })
})
