import { Country } from "@card-rewards/domain/Country"
import { type IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { SandboxClock } from "../src/SandboxClock.ts"
import { Users } from "../src/Users.ts"
import { newIntegrator, pairRuns, startMillis, testLayer } from "./TestLayer.ts"

const layer = Layer.mergeAll(Users.layer, SandboxClock.layer).pipe(Layer.provideMerge(testLayer))
const id = (text: string) => UserId.make(text)
const ann = id("ann")

const records = (integratorId: IntegratorId, userId: UserId) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql<{ storedAt: number; tier: string | null }>`SELECT stored_at, tier FROM user_attributes
      WHERE integrator_id = ${integratorId} AND user_id = ${userId} ORDER BY arrival`)

it.layer(layer)("Users", (it) => {
  it.effect("the first put enrolls the user with all of its attributes", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const integratorId = yield* newIntegrator
      const attributes = { tier: "gold", country: Country.make("DE"), segment: "beta" }
      yield* users.put(integratorId, id("bob"), {})
      const stored = yield* users.put(integratorId, ann, { ...attributes, referredBy: id("bob") })
      const user = {
        userId: ann,
        ...attributes,
        referredBy: id("bob"),
        enrolledAt: instant(startMillis),
        updatedAt: instant(startMillis)
      }
      assert.deepStrictEqual(stored, { user, outcome: "enrolled" })
      assert.deepStrictEqual(yield* users.get(integratorId, ann), user)
    }))

  it.effect("the same put again changes nothing and adds no record", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const integratorId = yield* newIntegrator
      yield* users.put(integratorId, id("bob"), {})
      const request = { tier: "gold", referredBy: id("bob") }
      const first = yield* users.put(integratorId, ann, request)
      yield* TestClock.adjust(5_000)
      assert.deepStrictEqual(yield* users.put(integratorId, ann, request), { user: first.user, outcome: "unchanged" })
      assert.deepStrictEqual(
        yield* users.put(integratorId, ann, { tier: "gold" }),
        { user: first.user, outcome: "unchanged" }
      )
      assert.lengthOf(yield* records(integratorId, ann), 1)
    }))

  it.effect("a change replaces the attributes, removes omitted ones, keeps the referrer and adds a record", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const integratorId = yield* newIntegrator
      yield* users.put(integratorId, id("bob"), {})
      yield* users.put(integratorId, ann, { tier: "gold", segment: "beta", referredBy: id("bob") })
      yield* TestClock.adjust(5_000)
      const { outcome, user } = yield* users.put(integratorId, ann, { segment: "beta" })
      assert.strictEqual(outcome, "updated")
      assert.deepStrictEqual(user, {
        userId: ann,
        segment: "beta",
        referredBy: id("bob"),
        enrolledAt: instant(startMillis),
        updatedAt: instant(startMillis + 5_000)
      })
      assert.deepStrictEqual(yield* users.get(integratorId, ann), user)
      assert.deepStrictEqual(yield* records(integratorId, ann), [
        { storedAt: startMillis, tier: "gold" },
        { storedAt: startMillis + 5_000, tier: null }
      ])
    }))

  it.effect("a referrer that is unknown, another integrator's or the user itself is ReferrerNotEnrolled", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const other = yield* newIntegrator
      const integratorId = yield* newIntegrator
      yield* users.put(other, id("bob"), {})
      for (const referredBy of [id("bob"), ann]) {
        const error = yield* Effect.flip(users.put(integratorId, ann, { referredBy }))
        assert.strictEqual(error._tag, "ReferrerNotEnrolled")
      }
      assert.strictEqual((yield* Effect.flip(users.get(integratorId, ann)))._tag, "NotFound")
    }))

  it.effect("a new or another referrer after enrollment is ReferrerConflict", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const integratorId = yield* newIntegrator
      for (const one of ["bob", "cid"]) yield* users.put(integratorId, id(one), {})
      yield* users.put(integratorId, ann, { referredBy: id("bob") })
      const another = yield* Effect.flip(users.put(integratorId, ann, { referredBy: id("cid") }))
      const added = yield* Effect.flip(users.put(integratorId, id("bob"), { tier: "gold", referredBy: id("cid") }))
      assert.deepStrictEqual([another._tag, added._tag], ["ReferrerConflict", "ReferrerConflict"])
      assert.isFalse("tier" in (yield* users.get(integratorId, id("bob"))))
    }))

  it.effect("times are the integrator's clock", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const clock = yield* SandboxClock
      const integratorId = yield* newIntegrator
      const later = instant(startMillis + 1_000_000)
      yield* clock.set(integratorId, later)
      const { user } = yield* users.put(integratorId, ann, {})
      assert.strictEqual(user.enrolledAt, later)
    }))

  it.effect("a change while the machine's clock is behind the last change is recorded at the time of that one", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const integratorId = yield* newIntegrator
      yield* users.put(integratorId, ann, { tier: "gold" })
      yield* TestClock.setTime(startMillis - 5_000)
      const { user } = yield* users.put(integratorId, ann, { tier: "iron" })
      assert.strictEqual(user.updatedAt, startMillis)
      assert.deepStrictEqual(yield* records(integratorId, ann), [
        { storedAt: startMillis, tier: "gold" },
        { storedAt: startMillis, tier: "iron" }
      ])
    }))

  it.effect("of two concurrent identical puts one is enrolled, the other unchanged", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const integratorId = yield* newIntegrator
      for (let run = 0; run < pairRuns; run++) {
        const put = users.put(integratorId, id(`pair-${run}`), { tier: "gold" })
        const stored = yield* Effect.all([put, put], { concurrency: 2 })
        assert.deepStrictEqual(stored.map((one) => one.outcome).sort(), ["enrolled", "unchanged"])
        assert.lengthOf(yield* records(integratorId, id(`pair-${run}`)), 1)
      }
    }))

  it.effect("after two concurrent different puts the user has the attributes of the last record", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const integratorId = yield* newIntegrator
      for (let run = 0; run < pairRuns; run++) {
        const userId = id(`pair-${run}`)
        const puts = ["gold", "iron"].map((tier) => users.put(integratorId, userId, { tier }))
        const stored = yield* Effect.all(puts, { concurrency: 2 })
        assert.deepStrictEqual(stored.map((one) => one.outcome).sort(), ["enrolled", "updated"])
        const tiers = (yield* records(integratorId, userId)).map((record) => record.tier)
        assert.lengthOf(tiers, 2)
        assert.strictEqual((yield* users.get(integratorId, userId)).tier, tiers[1])
      }
    }))

  it.effect("two users that name each other as referrers at the same moment do not both enroll", () =>
    Effect.gen(function*() {
      const users = yield* Users
      const integratorId = yield* newIntegrator
      for (let run = 0; run < pairRuns; run++) {
        const [left, right] = [id(`left-${run}`), id(`right-${run}`)]
        const results = yield* Effect.all([
          Effect.result(users.put(integratorId, left, { referredBy: right })),
          Effect.result(users.put(integratorId, right, { referredBy: left }))
        ], { concurrency: 2 })
        assert.isTrue(
          results.every((result) => result._tag === "Failure" && result.failure._tag === "ReferrerNotEnrolled")
        )
      }
    }))
})
