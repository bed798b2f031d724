import { Backlog } from "@card-rewards/core/Backlog"
import { Events } from "@card-rewards/core/Events"
import { Explanations } from "@card-rewards/core/Explanations"
import { Integrators } from "@card-rewards/core/Integrators"
import { Programs } from "@card-rewards/core/Programs"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer } from "effect"
import { liveMoneyLayer } from "./Spending.ts"

const services = Layer.mergeAll(Backlog.layer, Events.layer, Explanations.layer).pipe(
  Layer.provideMerge(liveMoneyLayer)
)

const userId = UserId.make("a:clearing:b")
let serial = 0

/** An integrator with a gold user, a program of tiers, caps and a campaign in force, and a funded vault. */
const setUp = Effect.gen(function*() {
  const integratorId = IntegratorId.make(`reading-${serial++}`)
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* Users).put(integratorId, userId, { tier: "gold" })
  const now = yield* Clock.currentTimeMillis
  const version = definition(now + 400_000, {
    categories: [{ id: "groceries", mccs: ["5411"] }],
    tiers: [{ tier: "gold", multiplier: 15_000, categoryRates: [{ categoryId: "groceries", rate: 400 }] }],
    campaigns: [{
      id: "opening",
      startsAt: printTimestamp(now),
      endsAt: printTimestamp(now + 900_000),
      bonusRate: 50
    }],
    caps: { perMonth: "100000000", categories: [{ categoryId: "groceries", perMonth: "7000000" }] },
    holdingPeriodDays: 0
  })
  yield* (yield* Programs).publish(integratorId, ProgramId.make("p"), 3, version, [])
  yield* (yield* SandboxClock).set(integratorId, instant(now + 500_000))
  yield* (yield* Vault).deposit(integratorId, {
    reference: Reference.make("d1"),
    amount: { asset: "USDC", amount: 10n ** 9n }
  })
  const events = yield* SpendEvents
  const send = (kind: string, id: string, cents: number, more: object = {}) =>
    events.submit(
      spendEvent(integratorId, userId, now + 500_000, { kind, externalTransactionId: id, amount: usd(cents), ...more })
    )
  return { integratorId, send, at: instant(now + 500_000) }
})

layer(services, { excludeTestServices: true })("reading", (it) => {
  it.effect("an explanation shows everything that determined the amount, including refunds and recoveries", () =>
    Effect.gen(function*() {
      const { at, integratorId, send } = yield* setUp
      const { explain } = yield* Explanations
      yield* send("clearing", "x:1", 10_000)
      yield* processAll
      yield* (yield* Vault).claim(integratorId, {
        reference: Reference.make("p1"),
        userId,
        amount: { asset: "USDC", amount: 6_500_000n }
      })
      // without effect
      const euro = { currency: "EUR", amount: "100" }
      yield* send("refund", "in euros", 1, { originalTransactionId: "x:1", amount: euro })
      yield* send("refund", "r1", 2_500, { originalTransactionId: "x:1" })
      yield* send("refund", "r2", 9_000, { originalTransactionId: "x:1" })
      yield* send("clearing", "x:2", 10_000)
      yield* processAll
      const first = yield* explain(integratorId, userId, `rw:${integratorId}:${userId}:clearing:x:1:p`)
      assert.deepStrictEqual(first, {
        rewardId: `rw:${integratorId}:${userId}:clearing:x:1:p`,
        programId: "p",
        programVersion: 3,
        purchaseTime: printTimestamp(at),
        attributes: { tier: "gold" },
        category: "groceries",
        rate: { value: 400, source: "tierCategory" },
        multiplier: 15_000,
        bonuses: [{ campaignId: "opening", bonusRate: 50 }],
        raw: "6500000",
        caps: [
          { scope: "month", perMonth: "100000000", usedBefore: "0", left: "100000000" },
          { scope: "category", categoryId: "groceries", perMonth: "7000000", usedBefore: "0", left: "7000000" }
        ],
        earned: "6500000",
        refunds: [
          { externalTransactionId: "r1", amount: "2500", reduction: "1625000" },
          { externalTransactionId: "r2", amount: "9000", reduction: "4875000" }
        ],
        recoveries: [],
        amount: "0"
      })
      const second = yield* explain(integratorId, userId, `rw:${integratorId}:${userId}:clearing:x:2:p`)
      assert.deepStrictEqual(second.recoveries.map(({ amount }) => amount), ["6500000"])
      assert.strictEqual(second.earned, "6500000")
    }))

  it.effect("an explanation shows a recovery that is due, whether or not it was applied before", () =>
    Effect.gen(function*() {
      const { at, integratorId, send } = yield* setUp
      const held = definition(at + 400_000, { holdingPeriodDays: 1 })
      yield* (yield* Programs).publish(integratorId, ProgramId.make("held"), 1, held, [])
      const amount = { asset: "USDC" as const, amount: 6_500_000n }
      yield* send("clearing", "paid", 10_000)
      yield* processAll
      yield* (yield* Vault).claim(integratorId, { reference: Reference.make("p1"), userId, amount })
      yield* send("refund", "r1", 10_000, { originalTransactionId: "paid" })
      yield* (yield* SandboxClock).set(integratorId, instant(at + 500_000))
      yield* (yield* SpendEvents).submit(spendEvent(integratorId, userId, at + 500_000, {
        kind: "clearing",
        externalTransactionId: "later",
        amount: usd(10_000),
        merchant: { descriptor: "Shop", mcc: "4111" }
      }))
      yield* processAll
      yield* (yield* SandboxClock).set(integratorId, instant(at + 500_000 + 86_400_000))
      const { explain } = yield* Explanations
      const { recoveries } = yield* explain(integratorId, userId, `rw:${integratorId}:${userId}:clearing:later:held`)
      assert.deepStrictEqual(recoveries.map(({ amount }) => amount), ["1000000"])
    }))

  it.effect("the explanation of another user's reward is NotFound", () =>
    Effect.gen(function*() {
      const { integratorId } = yield* setUp
      const { explain } = yield* Explanations
      for (const id of ["", "rw", "rw:other:a:clearing:x:p", `rw:${integratorId}:${userId}:clearing:p`]) {
        const error = yield* Effect.flip(explain(integratorId, userId, id))
        assert.deepStrictEqual([error._tag, "resource" in error ? error.resource : ""], ["NotFound", "reward"])
      }
    }))

  it.effect("waiting events are listed with their originals, newest first, page by page", () =>
    Effect.gen(function*() {
      const { integratorId, send } = yield* setUp
      const { size, waiting } = yield* Backlog
      yield* send("refund", "r1", 100, { originalTransactionId: "c1" })
      yield* send("reversal", "v1", 100, { authorizationId: "a1" })
      yield* send("clearing", "c2", 100, { authorizationId: "a1" })
      assert.containsSubset(yield* size(integratorId), { stored: 3, waiting: 0 })
      yield* processAll
      assert.deepStrictEqual(yield* size(integratorId), { stored: 0, waiting: 3 })
      const first = yield* waiting(integratorId, { limit: 2, cursor: undefined })
      const second = yield* waiting(integratorId, { limit: 2, cursor: first.next })
      assert.isUndefined(second.next)
      assert.deepStrictEqual(
        [...first.spendEvents, ...second.spendEvents].map(({ event, waitingFor }) => [
          event.externalTransactionId,
          waitingFor.kind,
          waitingFor.externalTransactionId
        ]),
        [["c2", "authorization", "a1"], ["v1", "authorization", "a1"], ["r1", "clearing", "c1"]]
      )
      assert.strictEqual((yield* Effect.flip(waiting(integratorId, { limit: 2, cursor: "?" })))._tag, "InvalidRequest")
      // integrators share the numbers of arrivals: a cursor shows none, and is its integrator's own
      const again = yield* waiting(integratorId, { limit: 2, cursor: undefined })
      assert.notStrictEqual(again.next, first.next)
      assert.deepStrictEqual(yield* waiting(integratorId, { limit: 2, cursor: again.next }), second)
      const foreign = waiting(IntegratorId.make("other"), { limit: 2, cursor: first.next })
      assert.strictEqual((yield* Effect.flip(foreign))._tag, "InvalidRequest")
    }))

  it.effect("a consumer of the event log receives every event once while eight clients write", () =>
    Effect.gen(function*() {
      const { integratorId } = yield* setUp
      const { deposit } = yield* Vault
      const { list } = yield* Events
      const writers = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 400 }, (_, index) => index), (index) =>
          deposit(integratorId, { reference: Reference.make(`w${index}`), amount: { asset: "EURe", amount: 1n } }), {
          concurrency: 8
        })
      )
      const received: Array<string> = []
      let after = 0n
      while (received.length < 401) {
        const page = yield* list(integratorId, { after, limit: 7 })
        received.push(...page.events)
        after = page.next
      }
      yield* Fiber.join(writers)
      assert.strictEqual(new Set(received).size, 401)
      assert.deepStrictEqual(yield* list(integratorId, { after, limit: 7 }), { events: [], next: after })
      const kinds = yield* list(integratorId, { after: 0n, limit: 100, kind: "reward.paid" })
      assert.deepStrictEqual(kinds, { events: [], next: 401n })
    }))
})
