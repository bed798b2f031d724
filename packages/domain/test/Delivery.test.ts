import {
  afterAttempt,
  type AttemptResult,
  allowance,
  type Breaker,
  breakerAfter,
  breakerThreshold,
  closedBreaker,
  defaultRetryDelays,
  isOpen,
  isSuccess,
  jitterRange,
  maxInFlightPerEndpoint,
  parseRetryDelays,
  probeDelayMillis,
  type RetryDelays
} from "@card-rewards/domain/Delivery"
import { slotsPerShare, shareSlots } from "@card-rewards/domain/DeliverySlots"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const integer = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

const delay = integer(1, 604_800_000)
const delays = Schema.TupleWithRest(Schema.Tuple([delay]), [delay]).check(Schema.isMaxLength(50))
const time = integer(0, 4_000_000_000_000)
const jitter = Schema.Finite.check(Schema.isBetween(jitterRange))
const failure = Schema.Union([
  Schema.Struct({ error: Schema.Literals(["timeout", "reset"]) }),
  Schema.Struct({ status: Schema.Literals([301, 400, 404, 429, 500, 503]), answer: Schema.String })
])
const success = Schema.Struct({ status: integer(200, 299), answer: Schema.String })

const failed: AttemptResult = { error: "reset" }

/** How long after the end of an attempt the next one is due. */
const pauseAfter = (input: Parameters<typeof afterAttempt>[0]): number | undefined => {
  const after = afterAttempt(input)
  return after.state === "pending" ? after.nextAttemptAt - input.endedAt : undefined
}

describe("the schedule", () => {
  it("is 13 attempts in about 76 hours, then exhausted", () => {
    let endedAt = 0
    let attempt = 1
    for (;; attempt++) {
      const after = afterAttempt({ delays: defaultRetryDelays, attempt, result: failed, endedAt, jitter: 1 })
      if (after.state !== "pending") {
        assert.strictEqual(after.state, "exhausted")
        break
      }
      endedAt = after.nextAttemptAt
    }
    assert.strictEqual(attempt, 13)
    assert.strictEqual(Math.round(endedAt / 3_600_000), 76)
  })

  it.prop("is exhausted after the last delay, and not before", [delays, integer(1, 60), failure, time, jitter], (
    [delays, attempt, result, endedAt, jitter]
  ) => {
    const { state } = afterAttempt({ delays, attempt, result, endedAt, jitter })
    assert.strictEqual(state, attempt <= delays.length ? "pending" : "exhausted")
  })

  it.prop("ends with any 2xx, including at the last attempt", [delays, integer(1, 60), success, time, jitter], (
    [delays, attempt, result, endedAt, jitter]
  ) => {
    assert.isTrue(isSuccess(result))
    assert.deepStrictEqual(afterAttempt({ delays, attempt, result, endedAt, jitter }), { state: "delivered" })
  })

  it.prop("pauses for 0.8 to 1.2 of the attempt's delay", [delays, failure, time, jitter], (
    [delays, result, endedAt, jitter]
  ) => {
    for (const [index, delay] of delays.entries()) {
      const pause = pauseAfter({ delays, attempt: index + 1, result, endedAt, jitter }) ?? Number.NaN
      assert.isAtLeast(pause, Math.floor(0.8 * delay))
      assert.isAtMost(pause, Math.ceil(1.2 * delay))
      assert.strictEqual(pause, Math.round(delay * jitter))
    }
  })

  it.prop(
    "Retry-After on 429 and 503 makes the pause as long as it says, between the jittered delay and two delays",
    [delay, Schema.Literals([429, 503]), integer(0, 999_999_999), time, jitter],
    ([delay, status, retryAfterSeconds, endedAt, jitter]) => {
      const result = { status, answer: "", retryAfterSeconds }
      const pause = pauseAfter({ delays: [delay], attempt: 1, result, endedAt, jitter }) ?? Number.NaN
      assert.isAtLeast(pause, Math.round(delay * jitter))
      assert.isAtMost(pause, 2 * delay)
      const requestedMillis = retryAfterSeconds * 1_000
      const isWithinBounds = requestedMillis >= delay * jitter && requestedMillis <= 2 * delay
      if (isWithinBounds) assert.strictEqual(pause, requestedMillis)
      if (requestedMillis > 2 * delay) assert.strictEqual(pause, 2 * delay)
    }
  )

  it.prop(
    "Retry-After on any other status changes nothing",
    [delay, integer(300, 599), integer(0, 999_999_999), jitter],
    ([delay, status, retryAfterSeconds, jitter]) => {
      if (status === 429 || status === 503) return
      const result = { status, answer: "", retryAfterSeconds }
      const pause = pauseAfter({ delays: [delay], attempt: 1, result, endedAt: 0, jitter })
      assert.strictEqual(pause, Math.round(delay * jitter))
    }
  )
})

describe("parseRetryDelays", () => {
  it.each<[string, RetryDelays]>([
    ["300ms,5s,2m,1h", [300, 5_000, 120_000, 3_600_000]],
    ["1ms", [1]],
    ["7d", [604_800_000]],
    [" 5s , 30s ", [5_000, 30_000]],
    [Array(50).fill("1s").join(","), [1_000, ...Array<number>(49).fill(1_000)]]
  ])("reads %s", (text, expected) => assert.deepStrictEqual(parseRetryDelays(text), expected))

  it.each([
    "",
    ",",
    "5s,",
    ",5s",
    "5",
    "s",
    "0ms",
    "0s,5s",
    "-5s",
    "+5s",
    "1.5s",
    "1e3ms",
    "5 s",
    "5S",
    "5s 5s",
    "5s;5s",
    "1w",
    "8d",
    "604800001ms",
    "169h",
    "5s,8d",
    "9999999999ms",
    Array(51).fill("1s").join(",")
  ])("refuses %s", (text) => assert.isUndefined(parseRetryDelays(text)))

  it.prop("parses delays written in milliseconds", [delays], ([delays]) => {
    assert.deepStrictEqual(parseRetryDelays(delays.map((millis) => `${millis}ms`).join(",")), delays)
  })
})

const failTimes = (times: number, delays: RetryDelays, from: Breaker = closedBreaker) => {
  let breaker = from
  for (let n = 0; n < times; n++) breaker = breakerAfter(breaker, { success: false, probe: false, endedAt: n }, delays)
  return breaker
}

describe("the breaker", () => {
  it("opens with the tenth failure in a row, and lets the rest of the 16 through before", () => {
    for (let failures = 0; failures < breakerThreshold; failures++) {
      const breaker = failTimes(failures, defaultRetryDelays)
      assert.isFalse(isOpen(breaker))
      assert.deepStrictEqual(allowance(breaker, { inFlight: 3, now: 0 }), { attempts: 13, probe: false })
    }
    const open = failTimes(10, defaultRetryDelays)
    assert.isTrue(isOpen(open))
    assert.deepStrictEqual(open, { failures: 10, probeAt: 9 + 30_000 })
  })

  it.prop(
    "open, gives one probe when it is due and nothing is in flight, and nothing else",
    [time, time, integer(0, 16)],
    ([probeAt, now, flying]) => {
      const given = allowance({ failures: 10, probeAt }, { now, inFlight: flying })
      const due = flying === 0 && probeAt <= now
      assert.deepStrictEqual(given, { attempts: due ? 1 : 0, probe: due })
    }
  )

  it("waits 30 s for its first probe, and twice as long after each that failed, up to 1 h", () => {
    let breaker = failTimes(10, defaultRetryDelays)
    const waits = [(breaker.probeAt ?? Number.NaN) - 9]
    for (let probe = 1; probe <= 9; probe++) {
      breaker = breakerAfter(breaker, { success: false, probe: true, endedAt: 1_000 }, defaultRetryDelays)
      waits.push((breaker.probeAt ?? Number.NaN) - 1_000)
    }
    const seconds = [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]
    assert.deepStrictEqual(waits, seconds.map((second) => second * 1_000))
  })

  it.prop("never waits longer than 1 h or the longest delay of the schedule", [delays, integer(0, 2_000_000_000)], (
    [delays, failedProbes]
  ) => {
    const wait = probeDelayMillis(delays, failedProbes)
    assert.isAtLeast(wait, 1)
    assert.isAtMost(wait, Math.min(3_600_000, Math.max(...delays)))
    assert.isAtLeast(wait, Math.min(30_000, Math.max(...delays)))
  })

  it.prop("closes on any success, with or without a probe", [integer(0, 1_000), Schema.Boolean, time, delays], (
    [failures, probe, endedAt, delays]
  ) => {
    const open = failTimes(failures, delays)
    assert.deepStrictEqual(breakerAfter(open, { success: true, probe, endedAt }, delays), closedBreaker)
  })

  it.prop("does not count failures of attempts in flight while it is open", [integer(10, 1_000), time, time, delays], (
    [failures, probeAt, endedAt, delays]
  ) => {
    const open = { failures, probeAt }
    assert.deepStrictEqual(breakerAfter(open, { success: false, probe: false, endedAt }, delays), open)
  })

  it("counts consecutive failures only", () => {
    const nine = failTimes(9, defaultRetryDelays)
    const again = breakerAfter(nine, { success: true, probe: false, endedAt: 0 }, defaultRetryDelays)
    assert.isFalse(isOpen(failTimes(9, defaultRetryDelays, again)))
  })
})

describe("slots", () => {
  const endpoint = Schema.Struct({
    inFlight: integer(0, 16),
    old: integer(0, 16),
    slow: Schema.Boolean,
    attempts: integer(1, 16)
  })
  const endpoints = Schema.Array(endpoint).check(Schema.isMaxLength(40))
  const limits = [integer(0, 512), integer(0, 512), integer(0, 256)] as const

  it.prop("are assigned within all limits, fairly, until no endpoint may get another", [
    endpoints,
    ...limits
  ], ([candidates, limit, recentLimit, slowLimit]) => {
    const numbered = candidates
      .map((one, index) => ({ ...one, index, wanted: Math.min(one.attempts, 16 - one.inFlight) }))
      .map((one) => ({ ...one, attempts: one.wanted, recent: Math.max(0, one.inFlight - one.old) }))
    const shares = shareSlots(numbered, { limit, recentLimit, slowLimit })
    const assigned = new Map(shares.map(({ attempts, index }) => [index, attempts]))
    const of = (index: number) => assigned.get(index) ?? 0
    const total = (those: typeof numbered) => those.reduce((sum, { index }) => sum + of(index), 0)
    const slow = numbered.filter((one) => one.slow)
    assert.isAtMost(total(numbered), Math.min(limit, recentLimit))
    assert.isAtMost(total(slow), slowLimit)
    const free = limit - total(numbered)
    const recentFree = recentLimit - total(numbered)
    const slowFree = slowLimit - total(slow)
    const mayTake = (slots: number, nth: number) => slots > 0 && (nth === 1 || slots >= nth * slotsPerShare)
    for (const { inFlight, index, recent, slow, wanted } of numbered) {
      assert.isAtMost(of(index), wanted)
      assert.isAtMost(inFlight + of(index), Math.max(inFlight, maxInFlightPerEndpoint))
      if (of(index) === wanted) continue
      const nth = inFlight + of(index) + 1
      const mayBeRecent = mayTake(recentFree, recent + of(index) + 1)
      assert.isFalse(mayTake(free, nth) && mayBeRecent && (!slow || mayTake(slowFree, nth)))
      // no endpoint of its kind got a later slot than the one that it was refused, unless it has fewer recent requests
      for (const other of numbered) {
        if (other.slow !== slow || of(other.index) === 0) continue
        const isAlike = mayBeRecent || other.recent + of(other.index) > recent + of(index)
        if (isAlike) assert.isAtMost(other.inFlight + of(other.index), nth)
      }
    }
  })

  it("of an idle process are 16 for one endpoint, and one each for 512", () => {
    const none = { inFlight: 0, recent: 0, slow: false, attempts: 16 }
    const some = (count: number) => Array.from({ length: count }, () => none)
    const free = { limit: 512, recentLimit: 512, slowLimit: 256 }
    const sumOf = (count: number) => shareSlots(some(count), free).reduce((sum, { attempts }) => sum + attempts, 0)
    assert.strictEqual(sumOf(1), 16)
    assert.strictEqual(sumOf(512), 512)
    assert.strictEqual(sumOf(600), 512)
    assert.isBelow(sumOf(100), 512)
  })
  it.each([
    ["of all", { limit: 16 }, false, 1],
    ["of recent requests", { recentLimit: 16 }, false, 1],
    ["of slow endpoints", { slowLimit: 16 }, true, 1],
    ["of slow endpoints, to one that is not slow,", { slowLimit: 16 }, false, 16]
  ])("are a second one for an endpoint only while 16 are free %s", (_, few, slow, count) => {
    const one = { inFlight: 0, recent: 0, slow, attempts: 16 }
    const shares = shareSlots([one], { limit: 512, recentLimit: 512, slowLimit: 256, ...few })
    assert.deepStrictEqual(shares.map(({ attempts }) => attempts), [count])
  })
})
