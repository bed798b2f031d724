import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import * as Gathering from "../src/Gathering.ts"
import { moneyLayer, processAll, spendEvent, usd } from "./Spending.ts"
import { definition, newIntegrator, startMillis } from "./TestLayer.ts"

/** Statements that end when a test says so, by what they were asked. */
const statements = Effect.gen(function*() {
  const groups: Array<{ readonly asked: ReadonlyArray<string>; readonly end: Deferred.Deferred<void> }> = []
  const ask = yield* Gathering.make("test", (asked: ReadonlyArray<string>) =>
    Effect.gen(function*() {
      const end = yield* Deferred.make<void>()
      groups.push({ asked, end })
      yield* Deferred.await(end)
      return (place: number) => `answer to ${asked[place]}`
    }))
  const begin = Effect.fnUntraced(function*(question: string) {
    const fiber = yield* Effect.forkChild(ask(question))
    yield* TestClock.adjust(0)
    return fiber
  })
  const end = Effect.fnUntraced(function*(index: number) {
    const group = groups[index]
    if (group !== undefined) yield* Deferred.succeed(group.end, undefined)
    yield* TestClock.adjust(0)
  })
  return { begin, end, asked: () => groups.map(({ asked }) => asked) }
})

describe("questions", () => {
  it.effect("that come while two statements are under way form the next one, and each gets its own answer", () =>
    Effect.gen(function*() {
      const { asked, begin, end } = yield* statements
      const first = yield* begin("a")
      yield* begin("b")
      const others = [yield* begin("c"), yield* begin("d")]
      assert.deepStrictEqual(asked(), [["a"], ["b"]])
      yield* end(0)
      assert.strictEqual(yield* Fiber.join(first), "answer to a")
      assert.deepStrictEqual(asked(), [["a"], ["b"], ["c", "d"]])
      yield* end(2)
      assert.deepStrictEqual(yield* Fiber.joinAll(others), ["answer to c", "answer to d"])
    }))

  it.effect("wait for 4.5 s at most, behind statements without an end too", () =>
    Effect.gen(function*() {
      const { asked, begin } = yield* statements
      const early = [yield* begin("a"), yield* begin("b")]
      yield* TestClock.adjust("3 seconds")
      const late = yield* begin("late")
      yield* TestClock.adjust("1499 millis")
      assert.deepStrictEqual(asked(), [["a"], ["b"]])
      yield* TestClock.adjust("1 millis")
      for (const fiber of early) assert.strictEqual((yield* Effect.flip(Fiber.join(fiber)))._tag, "Unavailable")
      assert.deepStrictEqual(asked(), [["a"], ["b"], ["late"]])
      yield* TestClock.adjust("2999 millis")
      assert.isUndefined(late.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* Effect.flip(Fiber.join(late)))._tag, "Unavailable")
    }))

  it.effect("of who has left are not asked", () =>
    Effect.gen(function*() {
      const { asked, begin, end } = yield* statements
      yield* begin("a")
      yield* begin("b")
      const left = yield* begin("left")
      yield* begin("c")
      yield* Fiber.interrupt(left)
      yield* end(0)
      assert.deepStrictEqual(asked(), [["a"], ["b"], ["c"]])
    }))

  it.effect("that meet a fault leave the next ones an answer", () =>
    Effect.gen(function*() {
      let isFaulty = true
      const ask = yield* Gathering.make("test", () => isFaulty ? Effect.die("a fault") : Effect.succeed(() => "answer"))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(ask("a"))))
      isFaulty = false
      assert.strictEqual(yield* ask("b"), "answer")
    }))
})

layer(moneyLayer)("balances that are asked for at one moment", (it) => {
  it.effect("are each user's own, at each integrator's time", () =>
    Effect.gen(function*() {
      const rewards = yield* Rewards
      const users = ["ann", "bob", "nobody", "cid"].map((user) => UserId.make(user))
      const dayMillis = 86_400_000
      const integrators = [yield* newIntegrator, yield* newIntegrator] as const
      for (const integratorId of integrators) {
        for (const userId of users) {
          if (userId !== "nobody") yield* (yield* Users).put(integratorId, userId, {})
        }
        yield* (yield* Programs).publish(integratorId, ProgramId.make("p"), 1, definition(startMillis + 400_000), [])
        yield* (yield* SandboxClock).set(integratorId, instant(startMillis + 500_000))
        const amount = { asset: "USDC", amount: 10n ** 9n } as const
        yield* (yield* Vault).deposit(integratorId, { reference: Reference.make("d"), amount })
        for (const [index, userId] of ["ann", "bob"].entries()) {
          const event = { kind: "clearing", externalTransactionId: "c", amount: usd((index + 1) * 10_000) }
          yield* (yield* SpendEvents).submit(spendEvent(integratorId, userId, startMillis + 500_000, event))
        }
      }
      yield* processAll
      // here the holding period is over
      yield* (yield* SandboxClock).set(integrators[1], instant(startMillis + 500_000 + 14 * dayMillis))
      const found = yield* Effect.forEach(
        integrators.flatMap((integratorId) => users.map((userId) => rewards.balance(integratorId, userId))),
        (balance) => Effect.match(balance, {
          onSuccess: ({ balances: [usdc], userId }) => `${userId}: ${usdc?.pending}, ${usdc?.claimable}`,
          onFailure: ({ _tag }) => _tag
        }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(found, [
        "ann: 1000000, 0",
        "bob: 2000000, 0",
        "NotFound",
        "cid: 0, 0",
        "ann: 0, 1000000",
        "bob: 0, 2000000",
        "NotFound",
        "cid: 0, 0"
      ])
    }))
})
