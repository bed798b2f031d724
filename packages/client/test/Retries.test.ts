import { CardRewards, type Timeouts } from "@card-rewards/client/CardRewards"
import { maxLostResponses } from "@card-rewards/client/Retries"
import { EndpointId, ProgramId, UserId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { TestClock } from "effect/testing"

/** What the service or the network does with one request. */
type Step = () => Response | Promise<Response>

const status = (code: number, body: object = {}, headers: Record<string, string> = {}): Step => () =>
  new Response(JSON.stringify(body), { status: code, headers: { "content-type": "application/json", ...headers } })
const unavailable = status(503, { _tag: "Unavailable", message: "" }, { "retry-after": "1" })
const limited = (retryAfterSeconds: number, headers: Record<string, string> = {}) =>
  status(429, { _tag: "RateLimited", message: "", retryAfterSeconds }, headers)
const lost: Step = () => Promise.reject(new TypeError("fetch failed"))
const hangs: Step = () => new Promise(() => {})
/** The connection breaks in the middle of the body. */
const cut: Step = () =>
  new Response(new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode("{"))
      controller.error(new TypeError("terminated"))
    }
  }))
const stored = status(200, {
  user: { userId: "ann", enrolledAt: "2026-01-01T00:00:00.000Z", updatedAt: "2026-01-01T00:00:00.000Z" },
  outcome: "enrolled"
})

/** A client of a service that takes these steps, one per request, and repeats the last; `sent` has every request. */
const against = Effect.fnUntraced(function*(steps: readonly [Step, ...ReadonlyArray<Step>], timeouts?: Timeouts) {
  const sent: Array<{ at: number; url: string; method: string | undefined; key: string | null; body: string }> = []
  let aborted = 0
  const clock = yield* Clock.Clock
  const fetch: typeof globalThis.fetch = async (url, init) => {
    const body = await new Response(init?.body).text()
    const key = new Headers(init?.headers).get("x-api-key")
    sent.push({ at: clock.currentTimeMillisUnsafe(), url: String(url), method: init?.method, key, body })
    init?.signal?.addEventListener("abort", () => aborted++)
    return (steps[sent.length - 1] ?? steps[steps.length - 1] ?? steps[0])()
  }
  const options = { baseUrl: "http://service.test/", apiKey: Redacted.make("key"), ...(timeouts && { timeouts }) }
  const layer = CardRewards.layer(options).pipe(
    Layer.provide(FetchHttpClient.layer),
    Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch))
  )
  const api = yield* Effect.provide(CardRewards, layer)
  return { api, sent, aborted: () => aborted }
})

/** Advances the clock in small steps until a call ends; returns its exit and the elapsed time. */
const elapsed = Effect.fnUntraced(function*<A, E>(call: Effect.Effect<A, E>) {
  const fiber = yield* Effect.forkChild(call)
  let millis = 0
  for (; fiber.pollUnsafe() === undefined && millis < 400_000; millis += 10) {
    // the promises of fetch settle between the steps
    yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
    yield* TestClock.adjust(10)
  }
  return { exit: yield* Fiber.await(fiber), millis }
})

const ann = { params: { userId: UserId.make("ann") } }

describe("a call", () => {
  it.live("ends in time also where the clock is set back meanwhile", () =>
    Effect.gen(function*() {
      const real = yield* Clock.Clock
      let behindMillis = 0
      const setBack = () => real.currentTimeMillisUnsafe() - behindMillis
      const clock = { currentTimeMillisUnsafe: setBack, currentTimeMillis: Effect.sync(setBack) }
      const refused: Step = () => {
        behindMillis = 3_600_000
        return new Response("", { status: 503 })
      }
      const { api } = yield* against([refused], { totalMillis: 1_000 })
      const exit = yield* Effect.exit(api.users.put({ ...ann, payload: {} })).pipe(
        Effect.provideService(Clock.Clock, Object.assign(Object.create(real), clock)),
        Effect.timeout("20 seconds")
      )
      assert.isTrue(Exit.isFailure(exit))
    }))

  it.effect("is retried unchanged after 503, 429, a lost connection, a cut body and a gateway's 502", () =>
    Effect.gen(function*() {
      for (const failure of [unavailable, limited(1), lost, cut, status(502), status(504)]) {
        const { api, sent } = yield* against([failure, stored])
        const { exit } = yield* elapsed(api.users.put({ ...ann, payload: { tier: "gold" } }))
        assert.isTrue(Exit.isSuccess(exit))
        assert.deepStrictEqual(
          sent.map(({ body, key, method, url }) => [method, url, key, body]),
          Array.from({ length: 2 }, () => ["PUT", "http://service.test/v1/users/ann", "key", "{\"tier\":\"gold\"}"])
        )
      }
    }))

  it.effect("ends with any other response", () =>
    Effect.gen(function*() {
      for (const code of [400, 401, 403, 404, 409, 422, 500]) {
        const { api, sent } = yield* against([status(code)])
        const { exit } = yield* elapsed(api.users.put({ ...ann, payload: {} }))
        assert.isTrue(Exit.isFailure(exit))
        assert.strictEqual(sent.length, 1)
      }
    }))

  it.effect("is retried after Retry-After, up to a quarter later; without the header, after the time in the body", () =>
    Effect.gen(function*() {
      const pauses = new Set<number>()
      for (let run = 0; run < 6; run++) {
        const header = { "retry-after": "7" }
        for (const failure of [limited(7, header), limited(7), status(503, {}, header)]) {
          const { api, sent } = yield* against([failure, stored])
          yield* elapsed(api.users.put({ ...ann, payload: {} }))
          const pause = (sent[1]?.at ?? 0) - (sent[0]?.at ?? 0)
          assert.isTrue(pause >= 7_000 && pause <= 8_760, `${pause}`)
          pauses.add(pause)
        }
      }
      assert.isAbove(pauses.size, 10)
    }))

  it.effect("fails at once where Retry-After exceeds its timeout, and reports the Retry-After", () =>
    Effect.gen(function*() {
      const { api, sent } = yield* against([limited(40, { "retry-after": "40" })])
      const { exit, millis } = yield* elapsed(Effect.flip(api.users.put({ ...ann, payload: {} })))
      assert.isTrue(Exit.isSuccess(exit) && exit.value._tag === "RateLimited" && exit.value.retryAfterSeconds === 40)
      assert.deepStrictEqual([sent.length, millis <= 20], [1, true])
    }))

  it.effect("ends within its timeout with the error of the last response; its pauses grow", () =>
    Effect.gen(function*() {
      const withoutRetryAfter = status(503, { _tag: "Unavailable", message: "" })
      const { api, sent } = yield* against([withoutRetryAfter], { totalMillis: 20_000 })
      const { exit, millis } = yield* elapsed(Effect.flip(api.users.put({ ...ann, payload: {} })))
      assert.isTrue(Exit.isSuccess(exit) && exit.value._tag === "Unavailable")
      assert.isTrue(millis > 10_000 && millis <= 20_000, `${millis}`)
      const pauses = sent.slice(1).map(({ at }, index) => at - (sent[index]?.at ?? 0))
      pauses.forEach((pause, index) => {
        const full = Math.min(200 * 2 ** index, 5_000)
        assert.isTrue(pause >= full / 2 && pause <= full + 10, `pause ${index} is ${pause}`)
      })
    }))

  it.effect("is sent four times at most when its responses are lost", () =>
    Effect.gen(function*() {
      const { api, sent } = yield* against([lost])
      const { exit } = yield* elapsed(Effect.flip(api.users.put({ ...ann, payload: {} })))
      assert.isTrue(Exit.isSuccess(exit) && exit.value._tag === "HttpClientError")
      assert.deepStrictEqual([sent.length, maxLostResponses], [4, 4])
    }))

  it.effect("that rotates a secret counts 503, after which it may be done, as a lost response", () =>
    Effect.gen(function*() {
      const { api, sent } = yield* against([unavailable])
      const rotation = api.webhookEndpoints.rotateSecret({ params: { id: EndpointId.make("main") } })
      const { exit } = yield* elapsed(Effect.flip(rotation))
      assert.isTrue(Exit.isSuccess(exit) && exit.value._tag === "Unavailable")
      assert.strictEqual(sent.length, maxLostResponses)
    }))

  it.effect("that starts a replay, and whose response is lost, fails with ReplayRunning and the replay's id", () =>
    Effect.gen(function*() {
      const running = status(422, { _tag: "ReplayRunning", message: "", replayId: "rpl_2" })
      const { api, sent } = yield* against([lost, running])
      const start = api.webhookEndpoints.startReplay({
        params: { id: EndpointId.make("main") },
        payload: { from: instant(0), kinds: ["reward.paid"] }
      }).pipe(Effect.as("started"), Effect.catchTag("ReplayRunning", ({ replayId }) => Effect.succeed(replayId)))
      const { exit } = yield* elapsed(start)
      assert.deepStrictEqual(exit, Exit.succeed("rpl_2"))
      assert.deepStrictEqual(sent.map(({ body }) => body), [
        "{\"from\":\"1970-01-01T00:00:00.000Z\",\"kinds\":[\"reward.paid\"]}",
        "{\"from\":\"1970-01-01T00:00:00.000Z\",\"kinds\":[\"reward.paid\"]}"
      ])
    }))

  it.effect("aborts an attempt without a response, and retries", () =>
    Effect.gen(function*() {
      const { aborted, api, sent } = yield* against([hangs, stored], { attemptMillis: 3_000 })
      const { exit, millis } = yield* elapsed(api.users.put({ ...ann, payload: {} }))
      assert.isTrue(Exit.isSuccess(exit))
      assert.isTrue(millis >= 3_100 && millis <= 3_300, `${millis}`)
      assert.deepStrictEqual([sent.length, aborted()], [2, 1])
    }))

  it.effect("has another 90 s when it simulates a program, a third of them to wait for others", () =>
    Effect.gen(function*() {
      const { api, sent } = yield* against([hangs])
      const { millis } = yield* elapsed(api.programs.simulate({
        params: { programId: ProgramId.make("p") },
        payload: {
          from: instant(0),
          to: instant(1),
          definition: {
            asset: "USDC",
            effectiveFrom: instant(0),
            categories: [],
            baseRate: 0,
            categoryRates: [],
            merchantRates: [],
            tiers: [],
            campaigns: [],
            caps: { perMonth: 0n, categories: [] },
            exclusions: { mccs: [], merchants: [] },
            holdingPeriodDays: 0
          }
        }
      }))
      assert.isTrue(millis > 115_000 && millis <= 120_100, `${millis}`)
      assert.isTrue((sent[1]?.at ?? 0) >= 100_100)
    }))

  it.effect("aborts its request when it is interrupted", () =>
    Effect.gen(function*() {
      const { aborted, api } = yield* against([hangs])
      const fiber = yield* Effect.forkChild(api.users.put({ ...ann, payload: {} }))
      yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(aborted(), 1)
    }))
})
