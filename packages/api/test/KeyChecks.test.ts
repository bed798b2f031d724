import { ApiKeys, type FoundKey } from "@card-rewards/core/ApiKeys"
import { ServerError, unavailable } from "@card-rewards/core/Database/Errors"
import { Unavailable } from "@card-rewards/domain/Errors"
import { ApiKeyName, IntegratorId } from "@card-rewards/domain/Ids"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Logger, type Option, References } from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { Cells } from "../src/Cells.ts"
import { clientOf } from "../src/Pipeline/ClientAddress.ts"
import { KeyChecks } from "../src/Pipeline/KeyChecks.ts"
import { OutageLog } from "../src/Pipeline/OutageLog.ts"
import { type Limit, RateLimit } from "../src/Pipeline/RateLimit.ts"
import type { Services } from "../src/Services.ts"

const key: FoundKey = {
  integratorId: IntegratorId.make("acme"),
  slot: 0,
  name: ApiKeyName.make("default"),
  revoked: false,
  suspended: false
}

/** A stand-in for the key database, which can change, go away and be slow. */
const make = (auth: Limit = "off", cell?: string) => {
  const database: {
    answer: Effect.Effect<Option.Option<FoundKey>, Unavailable>
    lookUps: number
    lastHash: string
    marks: number
  } = { answer: Effect.succeedSome(key), lookUps: 0, lastHash: "", marks: 0 }
  const apiKeys = Layer.mock(ApiKeys, {
    find: ({ hash }) => Effect.suspend(() => {
      database.lookUps++
      database.lastHash = Buffer.from(hash).toString("hex")
      return database.answer
    }),
    markUsed: (uses) => Effect.sync(() => {
      database.marks += uses.length
    })
  })
  const cells = Effect.map(ApiKeys, (keys) => Cells.only({ apiKeys: keys, cell } as Services))
  const limits = RateLimit.layer({ ingest: "off", read: "off", manage: "off", auth })
  const one = Layer.effect(Cells, cells).pipe(Layer.provide(apiKeys))
  return { database, layer: KeyChecks.layer.pipe(Layer.provide([one, limits])) }
}

const hourMillis = 3_600_000
const away = Effect.fail(new Unavailable({ message: "away" }))
const keyOf = (digit: string) => `service_sk_sandbox_${digit.repeat(64)}`
/** As the request pipeline calls it. */
const check = (apiKey = keyOf("a"), client = "192.0.2.1") =>
  Effect.gen(function*() {
    const checks = yield* KeyChecks
    return checks.fresh(apiKey, yield* Clock.Clock) ?? (yield* checks.check(apiKey, client))
  }).pipe(
    Effect.match({ onSuccess: () => "accepted", onFailure: (error) => error._tag })
  )

describe("KeyChecks", () => {
  it.effect("a checked key is taken as it was for 30 s, then looked up again", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      assert.strictEqual(yield* check(), "accepted")
      yield* TestClock.adjust("29 seconds")
      assert.strictEqual(yield* check(), "accepted")
      assert.strictEqual(database.lookUps, 1)
      database.answer = Effect.succeedSome({ ...key, revoked: true })
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* check(), "Unauthorized")
      assert.strictEqual(database.lookUps, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("why a look-up failed is logged with the cell of the key's slot", () => {
    const { database, layer } = make("off", "b")
    return Effect.gen(function*() {
      const lines: Array<unknown> = []
      const logger = Logger.make(({ fiber, message }) =>
        void lines.push([message, fiber.getRef(References.CurrentLogAnnotations)]))
      const said = new ServerError({ code: "53100", message: "No space left on device (53100)" })
      database.answer = Effect.fail(unavailable(said))
      const { check } = yield* KeyChecks
      const outages = new OutageLog()
      yield* Effect.catch(check(keyOf("a"), "192.0.2.1"), (error) => outages.note(error)).pipe(
        Effect.provide(Logger.layer([logger]))
      )
      assert.deepStrictEqual(lines, [[[`Requests are answered 503: ${said.message}`], { cell: "b" }]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("the machine's time, when it is set back, keeps no key from being looked up", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      yield* TestClock.setTime(3 * hourMillis)
      assert.strictEqual(yield* check(), "accepted")
      yield* TestClock.setTime(hourMillis)
      database.answer = away
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* check(), "accepted")
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* check(), "Unavailable")
      database.answer = Effect.succeedSome(key)
      assert.strictEqual(yield* check(), "accepted")
      yield* TestClock.setTime(0)
      database.answer = Effect.succeedSome({ ...key, revoked: true })
      yield* TestClock.adjust("29 seconds")
      assert.strictEqual(yield* check(), "accepted")
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* check(), "Unauthorized")
    }).pipe(Effect.provide(layer))
  })

  it.effect("an unknown key is looked up every time", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      database.answer = Effect.succeedNone
      assert.strictEqual(yield* check(), "Unauthorized")
      database.answer = Effect.succeedSome(key)
      assert.strictEqual(yield* check(), "accepted")
    }).pipe(Effect.provide(layer))
  })

  it.effect("an unknown key is looked up by its SHA-256 alone, whatever it has in common with a real one", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      const real = `service_sk_sandbox_${"0123456789abcdef".repeat(4)}`
      assert.strictEqual(yield* check(real), "accepted")
      database.answer = Effect.succeedNone
      for (let shared = "service_sk_sandbox_".length; shared < real.length; shared++) {
        const guess = `${real.slice(0, shared)}${real[shared] === "f" ? "0" : "f"}${real.slice(shared + 1)}`
        const before = database.lookUps
        assert.strictEqual(yield* check(guess), "Unauthorized")
        assert.strictEqual(database.lookUps, before + 1)
        assert.strictEqual(database.lastHash, createHash("sha256").update(guess).digest("hex"))
      }
    }).pipe(Effect.provide(layer))
  })

  it.effect("requests with one key share one look-up", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      database.answer = Effect.andThen(Effect.yieldNow, Effect.succeedSome(key))
      const answers = yield* Effect.all(Array.from({ length: 50 }, () => check()), { concurrency: "unbounded" })
      assert.isTrue(answers.every((answer) => answer === "accepted"))
      assert.strictEqual(database.lookUps, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("while the database is away, a key checked within the hour is accepted, any other is 503", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      assert.strictEqual(yield* check(), "accepted")
      database.answer = away
      assert.strictEqual(yield* check(keyOf("b")), "Unavailable")
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* check(), "accepted")
      const before = database.lookUps
      assert.strictEqual(yield* check(), "accepted")
      assert.strictEqual(database.lookUps, before)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* check(), "Unavailable")
      database.answer = Effect.succeedNone
      assert.strictEqual(yield* check(), "Unauthorized")
    }).pipe(Effect.provide(layer))
  })

  it.effect("a revocation ends the hour", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      yield* check()
      yield* TestClock.adjust("30 seconds")
      database.answer = Effect.succeedSome({ ...key, revoked: true })
      assert.strictEqual(yield* check(), "Unauthorized")
      database.answer = away
      assert.strictEqual(yield* check(), "Unavailable")
    }).pipe(Effect.provide(layer))
  })

  it.effect("uses are written once per key and minute", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      yield* Effect.all(Array.from({ length: 20 }, () => check()))
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(database.marks, 1)
      yield* TestClock.adjust("1 minute")
      yield* check()
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(database.marks, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("uses are written at the end, however short ago they were", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      assert.strictEqual(yield* Effect.provide(check(), layer), "accepted")
      assert.strictEqual(database.marks, 1)
    })
  })

  it.effect("a key of another form is refused without a look-up", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      const key = keyOf("a")
      for (const wrong of ["", "nonsense", key.slice(1), `${key}0`, keyOf("A"), key.replace("sandbox", "test")]) {
        assert.strictEqual(yield* check(wrong), "Unauthorized", wrong)
      }
      assert.strictEqual(database.lookUps, 0)
    }).pipe(Effect.provide(layer))
  })

  it.effect("failures are counted before the look-up, by client; a client beyond its limit may use a valid key", () => {
    const { database, layer } = make({ perSecond: 1, burst: 2 })
    return Effect.gen(function*() {
      database.answer = Effect.andThen(Effect.yieldNow, Effect.succeedNone)
      const attempts = Array.from("012345", (digit) => check(keyOf(digit)))
      const answers = yield* Effect.all(attempts, { concurrency: "unbounded" })
      const limited = Array.from({ length: 4 }, () => "RateLimited")
      assert.deepStrictEqual(answers, ["Unauthorized", "Unauthorized", ...limited])
      assert.strictEqual(yield* check(keyOf("0"), "192.0.2.2"), "Unauthorized")
      database.answer = Effect.succeedSome(key)
      for (const valid of "abcdef") assert.strictEqual(yield* check(keyOf(valid)), "accepted")
      database.answer = Effect.succeedNone
      assert.strictEqual(yield* check(keyOf("0")), "RateLimited", "accepted keys give none back")
      database.answer = away
      yield* TestClock.adjust("2 seconds")
      for (const unchecked of "012") assert.strictEqual(yield* check(keyOf(unchecked)), "Unavailable")
      database.answer = Effect.succeedSome(key)
      for (const valid of "789") assert.strictEqual(yield* check(keyOf(valid)), "accepted")
      database.answer = Effect.succeedNone
      assert.strictEqual(yield* check(keyOf("6")), "Unauthorized", "neither those nor accepted keys take one")
    }).pipe(Effect.provide(layer))
  })

  it("counts failures of an IPv6 client by its /64, and of a mapped IPv4 address as IPv4", () => {
    assert.strictEqual(clientOf("2001:db8:1:2::1"), clientOf("2001:0db8:0001:0002:ffff:ffff:ffff:ffff"))
    assert.notStrictEqual(clientOf("2001:db8:1:2::1"), clientOf("2001:db8:1:3::1"))
    assert.strictEqual(clientOf("::ffff:192.0.2.1"), clientOf("192.0.2.1"))
    assert.notStrictEqual(clientOf("192.0.2.1"), clientOf("192.0.2.2"))
    assert.strictEqual(clientOf(""), "")
  })
})
