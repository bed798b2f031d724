import { clearings, customer, newLedger, spend } from "@card-rewards/e2e/Load"
import { service, untilRows } from "@card-rewards/e2e/Setting"
import { verify } from "@card-rewards/e2e/Verify"
import { expect, seedIntegrator, integratorId, iso, listen } from "@card-rewards/e2e/World"
import type { NoAnswer } from "@card-rewards/testing/HttpExchange"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { until } from "@card-rewards/testing/Polling"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, describe, it } from "@effect/vitest"
import { Data, Duration, Effect } from "effect"

/** In seconds; a long run sets minutes. */
const awaySeconds = Number(process.env["AWAY_SECONDS"] ?? 4)
/** How often connections are frozen again, and how long the network works in between; a long run sets more. */
const losses = Number(process.env["AWAY_LOSSES"] ?? 3)
const lossEveryMillis = Number(process.env["AWAY_LOSS_EVERY_MILLIS"] ?? 2_500)
const refusedMillis = 5_000
const worksAgainMillis = 10_000
const customers = 8
/** All that the customers send in half a minute is verified at the end, event by event. */
const maxPauseMillis = 50
const mayGrowBytes = 64 * 1024 * 1024
const timeoutMillis = 300_000 + 3 * (awaySeconds * 1_000 + losses * (lossEveryMillis + 1_000))

const clearing = (id: string) => ({
  kind: "clearing",
  integratorId,
  userId: "user:1",
  externalTransactionId: id,
  amount: { currency: "USD", amount: "100" },
  merchant: { descriptor: "Shop", mcc: "5411" },
  occurredAt: iso(Date.now())
})
const amount = { asset: "USDC", amount: "1" }

/** One request of each operation; each has no effect or can be repeated. */
const requests: ReadonlyArray<readonly [string, string, unknown?]> = [
  ["POST", "/v1/spend-events", clearing("away")],
  ["GET", "/v1/spend-events?state=waiting"],
  ["GET", "/v1/spend-events/backlog"],
  ["PUT", "/v1/users/user:1", {}],
  ["GET", "/v1/users/user:1"],
  ["GET", "/v1/users/user:1/balance"],
  ["GET", "/v1/users/user:1/rewards"],
  ["GET", "/v1/programs"],
  ["GET", "/v1/programs/dollars"],
  ["GET", "/v1/api-keys"],
  ["POST", "/v1/api-keys", { name: "another" }],
  ["DELETE", "/v1/api-keys/unknown"],
  ["GET", "/v1/webhook-endpoints"],
  ["GET", "/v1/webhook-endpoints/main"],
  ["POST", "/v1/webhook-endpoints/unknown/rotate-secret"],
  ["GET", "/v1/events"],
  ["GET", "/v1/sandbox/vault"],
  ["GET", "/v1/sandbox/clock"],
  ["POST", "/v1/sandbox/deposits", { reference: "away", amount: { asset: "EURe", amount: "0" } }],
  ["POST", "/v1/sandbox/withdrawals", { reference: "away", amount: { asset: "EURe", amount: "0" } }],
  ["POST", "/v1/sandbox/claims", { reference: "away", amount, userId: "nobody" }]
]

/** An operation took longer than promised. */
class TooSlow extends Data.TaggedError("TooSlow")<{ readonly message: string }> {}

const isBelow = (millis: number, mostMillis: number, what: string) =>
  millis < mostMillis ? Effect.void : new TooSlow({ message: `${what}: ${Math.round(millis)} ms` })

/** A stalled machine only adds time, so that one good measurement of three is sufficient. Other faults end the test. */
const atBest = <R>(measured: Effect.Effect<void, TooSlow | NoAnswer, R>) =>
  measured.pipe(
    Effect.tapError(({ message }) => Effect.logInfo(message)),
    Effect.retry({ times: 2, while: ({ _tag }) => _tag === "TooSlow" }),
    Effect.orDie
  )

// most of the time is spent waiting
describe.concurrent("while the database is unreachable", () => {
  for (const how of ["cut", "freeze"] as const) {
    it.live(`(${how}) every request is answered 503 within 5 s, memory does not grow, and both processes recover`, () =>
      Effect.gen(function*() {
        const receiver = yield* WebhookReceiver
        const proxy = yield* NetworkProxy.toDatabase
        const { api, env, replaceWorker, url, client, worker } = yield* service({ proxy })
        const ledger = newLedger(yield* seedIntegrator(client))
        yield* listen(client, receiver.url)
        const worksAgain = Effect.fnUntraced(function*(after: string) {
          const begin = performance.now()
          const last = clearings(1, ledger.clockMillis)
          yield* spend(client, ledger, last)
          // including rows that a session on a half-open connection had locked
          const deposit = { reference: `back${begin}`, amount: { asset: "USDC", amount: "1000" } }
          yield* expect(200, client.sendWithRetries("POST", "/v1/sandbox/deposits", deposit))
          ledger.money.push({ kind: "deposit", asset: "USDC", amount: 1_000n })
          const apiMillis = performance.now() - begin
          const applied = `SELECT FROM spend_events
            WHERE external_transaction_id = '${last[0]?.externalTransactionId}' AND position IS NOT NULL`
          yield* untilRows("applied", url, applied, ({ length }) => length === 1)
          const millis = performance.now() - begin
          const worked = `the api works after ${Math.round(apiMillis)} ms, the worker after ${Math.round(millis)} ms`
          yield* Effect.logInfo(`${after}: ${worked}`)
          return millis
        })
        const lose = Effect.gen(function*() {
          yield* proxy[how]
          const answers = yield* Effect.forEach(requests, (request) => Effect.timed(client.send(...request)), {
            concurrency: "unbounded"
          })
          for (const [index, [, answer]] of answers.entries()) {
            const what = `${requests[index]?.slice(0, 2).join(" ")}: ${answer.text}`
            assert.strictEqual(answer.status, 503, what)
            assert.match(`${answer.headers["retry-after"]}`, /^[1-9]\d*$/, what)
          }
          yield* expect(204, client.send("GET", "/health"))
          yield* expect(400, client.send("POST", "/v1/spend-events", { kind: "clearing" }))
          const before = [api.residentBytes(), worker().residentBytes()]
          yield* Effect.sleep(awaySeconds * 1_000)
          for (const [index, child] of [api, worker()].entries()) {
            assert.isBelow(child.residentBytes() - (before[index] ?? 0), mayGrowBytes)
          }
          yield* proxy.restore
          const backMillis = yield* worksAgain(how)
          yield* isBelow(Math.max(...answers.map(([took]) => Duration.toMillis(took))), refusedMillis, "slowest 503")
          yield* isBelow(backMillis, worksAgainMillis, how)
        })
        // before the processes have recovered from the last one
        const loseAgainAndAgain = Effect.gen(function*() {
          for (let loss = 0; loss < losses; loss++) {
            yield* Effect.sleep(lossEveryMillis)
            yield* proxy.freeze
            yield* Effect.sleep(1_000)
            yield* proxy.restore
          }
          yield* isBelow(yield* worksAgain("freeze, again and again"), worksAgainMillis, "freeze, again and again")
        })
        const away = Effect.gen(function*() {
          yield* until("acknowledged at first", Effect.sync(() => ledger.acknowledged), (n) => n > 50)
          yield* atBest(lose)
          if (how === "freeze") yield* atBest(loseAgainAndAgain)
          ledger.closed = true
        })
        const load = Array.from({ length: customers }, (_, index) => customer(client, ledger, index, maxPauseMillis))
        yield* Effect.all([away, ...load], { concurrency: "unbounded", discard: true })
        assert.isTrue(api.isAlive() && worker().isAlive(), api.output() + worker().output())
        const begin = performance.now()
        yield* replaceWorker
        assert.isBelow(performance.now() - begin, 15_000, "the worker stops in time")
        yield* verify({ env: { ...env, DATABASE_URL: url }, client, ledger, received: receiver.received })
      }).pipe(Effect.provide(WebhookReceiver.layer), Effect.scoped), { timeout: timeoutMillis })
  }
})
