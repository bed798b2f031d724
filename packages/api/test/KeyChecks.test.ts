import { ApiKeys, type FoundKey } from "@card-rewards/core/ApiKeys"
import { Unavailable } from "@card-rewards/domain/Errors"
import { ApiKeyName, IntegratorId } from "@card-rewards/domain/Ids"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, type Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { KeyChecks } from "../src/Authorization/KeyChecks.ts"

const key: FoundKey = {
  integratorId: IntegratorId.make("acme"),
  name: ApiKeyName.make("default"),
  revoked: false,
  suspended: false
}

/** A stand-in for the key database, which can change, go away and be slow. */
const make = () => {
  const database: {
    answer: Effect.Effect<Option.Option<FoundKey>, Unavailable>
    lookUps: number
    lastHash: string
    marks: number
  } = { answer: Effect.succeedSome(key), lookUps: 0, lastHash: "", marks: 0 }
  const apiKeys = Layer.mock(ApiKeys, {
    find: (hash) => Effect.suspend(() => {
      database.lookUps++
      database.lastHash = Buffer.from(hash).toString("hex")
      return database.answer
    }),
    markUsed: (uses) => Effect.sync(() => {
      database.marks += uses.length
    })
  })
  return { database, layer: KeyChecks.layer.pipe(Layer.provide(apiKeys)) }
}

const away = Effect.fail(new Unavailable({ message: "away" }))
const check = (text = "a key") =>
  Effect.flatMap(KeyChecks, (checks) => checks.check(Redacted.make(text))).pipe(
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

  it.effect("an unknown key is looked up every time", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      database.answer = Effect.succeedNone
      assert.strictEqual(yield* check(), "Unauthorized")
      database.answer = Effect.succeedSome(key)
      assert.strictEqual(yield* check(), "accepted")
    }).pipe(Effect.provide(layer))
  })

  it.effect("of an unknown key only its SHA-256 is looked at, so nothing depends on what it shares with a real one", () => {
    const { database, layer } = make()
    return Effect.gen(function*() {
      const real = `service_sk_sandbox_${"0123456789abcdef".repeat(4)}`
      assert.strictEqual(yield* check(real), "accepted")
      database.answer = Effect.succeedNone
      for (let shared = 0; shared < real.length; shared++) {
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
      assert.strictEqual(yield* check("another"), "Unavailable")
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
})
