import { Audit } from "@card-rewards/core/Audit"
import { IntegratorBacklogs } from "@card-rewards/core/IntegratorBacklogs"
import { Integrators } from "@card-rewards/core/Integrators"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import * as Vitals from "@card-rewards/core/Vitals"
import { IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { latestClockMillis } from "@card-rewards/domain/SandboxClock"
import { instant } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

const user = UserId.make("u")
const purchaseAt = startMillis + 500_000
const last = instant(latestClockMillis)
let serial = 0

/** An integrator with a program of 1 % that is in force, and without money. */
const setUp = Effect.gen(function*() {
  yield* TestClock.setTime(startMillis)
  const id = IntegratorId.make(`far-${serial++}`)
  const [integrators, users, programs] = [yield* Integrators, yield* Users, yield* Programs]
  yield* integrators.create(id)
  yield* users.put(id, user, {})
  yield* programs.publish(id, ProgramId.make("base"), 1, definition(startMillis + 400_000), [])
  const clock = yield* SandboxClock
  yield* clock.set(id, instant(purchaseAt))
  return id
})

/** Posts a clearing of 2026. */
const clear = Effect.fnUntraced(function*(id: IntegratorId) {
  const events = yield* SpendEvents
  yield* events.submit(spendEvent(id, user, purchaseAt, { kind: "clearing", externalTransactionId: "c" }))
})

const deposit = Effect.fnUntraced(function*(id: IntegratorId) {
  const vault = yield* Vault
  yield* vault.deposit(id, { reference: Reference.make("d"), amount: { asset: "USDC", amount: 5_000_000n } })
})

const moveToLast = Effect.fnUntraced(function*(id: IntegratorId) {
  const clock = yield* SandboxClock
  assert.deepStrictEqual(yield* clock.set(id, last), { now: last })
})

/** Processes and matures all there is, and expects that the reward of the clearing is claimable. */
const isClaimable = Effect.fnUntraced(function*(id: IntegratorId) {
  const { matureRewards } = yield* Processing
  yield* processAll
  yield* Effect.repeat(matureRewards, { until: (done) => done === 0 })
  const rewards = yield* Rewards
  const page = yield* rewards.list(id, user, { limit: 50, cursor: undefined })
  assert.deepStrictEqual(page.rewards.map(({ state }) => state), ["Claimable"])
  assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
})

/** PostgreSQL's first time is in 4714 BC: what is due in 2026 is not due 7,000 years earlier in real time. */
layer(IntegratorBacklogs.layer.pipe(Layer.provideMerge(moneyLayer)))("a clock in the year 9000", (it) => {
  it.effect("makes a pending reward claimable", () =>
    Effect.gen(function*() {
      const id = yield* setUp
      yield* deposit(id)
      yield* clear(id)
      yield* processAll
      yield* moveToLast(id)
      yield* isClaimable(id)
    }))

  it.effect("ticks beyond it, and may then be set to its present time alone", () =>
    Effect.gen(function*() {
      const id = yield* setUp
      yield* moveToLast(id)
      yield* TestClock.adjust("1 second")
      const clock = yield* SandboxClock
      const { now } = yield* clock.get(id)
      assert.strictEqual(now, last + 1_000)
      assert.deepStrictEqual(yield* clock.set(id, now), { now })
      const { _tag } = yield* Effect.flip(clock.set(id, instant(now + 1)))
      assert.strictEqual(_tag, "InvalidRequest")
    }))

  it.effect("earns a reward for a purchase of 2026", () =>
    Effect.gen(function*() {
      const id = yield* setUp
      yield* deposit(id)
      yield* moveToLast(id)
      yield* clear(id)
      yield* isClaimable(id)
    }))

  it.effect("funds a reward that waited for money", () =>
    Effect.gen(function*() {
      const id = yield* setUp
      yield* clear(id)
      yield* processAll
      yield* moveToLast(id)
      yield* deposit(id)
      yield* isClaimable(id)
    }))

  it.effect("leaves the figures of the cell readable while an event of before is stored", () =>
    Effect.gen(function*() {
      const id = yield* setUp
      yield* clear(id)
      yield* moveToLast(id)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Vitals.read).oldestStoredMillis, 2_000, "since the move")
      const { list } = yield* IntegratorBacklogs
      assert.deepStrictEqual((yield* list).map(({ integratorId }) => integratorId), [id])
      yield* deposit(id)
      yield* isClaimable(id)
    }))
})
