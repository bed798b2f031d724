import { Audit } from "@card-rewards/core/Audit"
import { Integrators } from "@card-rewards/core/Integrators"
import * as Ledger from "@card-rewards/core/Ledger"
import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { dayMillis, instant } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { moneyLayer } from "./Spending.ts"

const user = UserId.make("u1")
let serial = 0

/** A new integrator with one user and a program of 1 %; its clock is set to a time at which the program is in force. */
const setUp = Effect.fnUntraced(function*(program: Record<string, unknown> = {}) {
  const id = IntegratorId.make(`acme-${serial++}`)
  const integrators = yield* Integrators
  const users = yield* Users
  const programs = yield* Programs
  const clock = yield* SandboxClock
  yield* integrators.create(id)
  yield* users.put(id, user, {})
  const now = yield* Clock.currentTimeMillis
  yield* programs.publish(id, ProgramId.make("base"), 1, definition(now + 400_000, program), [])
  yield* clock.set(id, instant(now + 500_000))
  return id
})

const send = Effect.fnUntraced(function*(id: IntegratorId, event: Record<string, unknown>) {
  const clock = yield* SandboxClock
  const events = yield* SpendEvents
  const { now } = yield* clock.get(id)
  return yield* events.submit(spendEvent(id, user, now, event))
})

const usdc = Effect.fnUntraced(function*(id: IntegratorId) {
  const rewards = yield* Rewards
  const { balances } = yield* rewards.balance(id, user)
  const [balance] = balances
  if (balance === undefined) throw new Error("no balance")
  const { asset: _, ...amounts } = balance
  const notZero = Object.entries(amounts).filter(([, amount]) => amount !== "0")
  return Object.fromEntries(notZero.map(([name, amount]) => [name, BigInt(amount)]))
})

const move = (reference: string, amount: bigint) => ({
  reference: Reference.make(reference),
  amount: { asset: "USDC" as const, amount }
})

const pass = Effect.fnUntraced(function*(id: IntegratorId, millis: number) {
  const clock = yield* SandboxClock
  const { now } = yield* clock.get(id)
  yield* clock.set(id, instant(now + millis))
})

const audited = Effect.gen(function*() {
  const audit = yield* Audit
  assert.deepStrictEqual((yield* audit.run).findings, [])
})

layer(moneyLayer)("from a spend event to a claim", (it) => {
  it.effect("makes an estimate of an authorization, and of its clearing a reward that is claimed in the end", () =>
    Effect.gen(function*() {
      const id = yield* setUp()
      const vault = yield* Vault
      yield* vault.deposit(id, move("d1", 5_000_000n))
      yield* send(id, { kind: "authorization", externalTransactionId: "a1" })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { expected: 1_000_000n })
      yield* send(id, { kind: "clearing", externalTransactionId: "c1", authorizationId: "a1" })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { pending: 1_000_000n })
      yield* pass(id, 14 * dayMillis)
      assert.deepStrictEqual(yield* usdc(id), { claimable: 1_000_000n })
      yield* vault.claim(id, { ...move("p1", 400_000n), userId: user })
      assert.deepStrictEqual(yield* usdc(id), { claimable: 600_000n, paid: 400_000n })
      const rewards = yield* Rewards
      const page = yield* rewards.list(id, user, { limit: 50, cursor: undefined })
      assert.deepStrictEqual(page.rewards.map(({ state, revision, paid }) => ({ state, revision, paid })), [
        { state: "Claimable", revision: 3, paid: "400000" }
      ])
      assert.deepStrictEqual((yield* vault.get(id)).balances[0], { asset: "USDC", held: 4_600_000n, free: 4_000_000n })
      yield* audited
    }))

  it.effect("a refund after the claim is owed, and recovered from the next reward that becomes claimable", () =>
    Effect.gen(function*() {
      const id = yield* setUp({ holdingPeriodDays: 0 })
      const vault = yield* Vault
      yield* vault.deposit(id, move("d1", 5_000_000n))
      yield* send(id, { kind: "clearing", externalTransactionId: "c1" })
      yield* processAll
      yield* vault.claim(id, { ...move("p1", 1_000_000n), userId: user })
      yield* send(id, {
        kind: "refund",
        externalTransactionId: "r1",
        originalTransactionId: "c1",
        amount: { currency: "USD", amount: "2500" }
      })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { paid: 1_000_000n, owed: 250_000n })
      yield* send(id, { kind: "clearing", externalTransactionId: "c2", amount: { currency: "USD", amount: "1000" } })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { paid: 1_000_000n, owed: 150_000n })
      yield* send(id, { kind: "clearing", externalTransactionId: "c3" })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { paid: 1_000_000n, claimable: 850_000n })
      yield* audited
    }))

  it.effect("rewards wait for money, first in, first out; a refund reduces one without changing its position", () =>
    Effect.gen(function*() {
      const id = yield* setUp()
      const vault = yield* Vault
      yield* send(id, { kind: "clearing", externalTransactionId: "c1" })
      yield* send(id, { kind: "clearing", externalTransactionId: "c2", amount: { currency: "USD", amount: "5000" } })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { awaitingFunding: 1_500_000n })
      yield* vault.deposit(id, move("d1", 500_000n))
      assert.deepStrictEqual(yield* usdc(id), { awaitingFunding: 1_500_000n })
      yield* send(id, {
        kind: "refund",
        externalTransactionId: "r1",
        originalTransactionId: "c1",
        amount: { currency: "USD", amount: "5001" }
      })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { awaitingFunding: 500_000n, pending: 499_900n })
      yield* audited
    }))

  it.effect("dependents that arrive first are set aside, and applied after their original, depth first", () =>
    Effect.gen(function*() {
      const id = yield* setUp()
      const vault = yield* Vault
      yield* vault.deposit(id, move("d1", 5_000_000n))
      yield* send(id, {
        kind: "refund",
        externalTransactionId: "r1",
        originalTransactionId: "c1",
        amount: { currency: "USD", amount: "10000" }
      })
      yield* send(id, { kind: "clearing", externalTransactionId: "c1", authorizationId: "a1" })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), {})
      yield* send(id, { kind: "authorization", externalTransactionId: "a1" })
      yield* processAll
      const rewards = yield* Rewards
      const page = yield* rewards.list(id, user, { limit: 50, cursor: undefined })
      assert.deepStrictEqual(page.rewards.map(({ state, amount }) => [state, amount.amount]), [["Refunded", "0"]])
      assert.deepStrictEqual(yield* usdc(id), {})
      yield* audited
    }))

  it.effect("dependents that arrive first in the batch of their original are applied after it", () =>
    Effect.gen(function*() {
      const id = yield* setUp()
      const vault = yield* Vault
      yield* vault.deposit(id, move("d1", 5_000_000n))
      yield* send(id, {
        kind: "refund",
        externalTransactionId: "r1",
        originalTransactionId: "c1",
        amount: { currency: "USD", amount: "2500" }
      })
      yield* send(id, { kind: "clearing", externalTransactionId: "c1", authorizationId: "a1" })
      yield* send(id, { kind: "reversal", externalTransactionId: "v1", authorizationId: "a2" })
      yield* send(id, { kind: "authorization", externalTransactionId: "a1" })
      yield* send(id, { kind: "authorization", externalTransactionId: "a2" })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { pending: 750_000n })
      yield* audited
    }))

  it.effect.each([0, 250])("rewards of one batch wait for each other too, when %d are served at once", (servedAtOnce) =>
    Effect.gen(function*() {
      const id = yield* setUp()
      const vault = yield* Vault
      const of = (cents: number) => ({ amount: { currency: "USD", amount: `${cents}` } })
      yield* vault.deposit(id, move("d1", 1_000_000n))
      yield* send(id, { kind: "clearing", externalTransactionId: "c0" })
      yield* processAll
      yield* send(id, { kind: "clearing", externalTransactionId: "c1", ...of(9_000) })
      yield* send(id, { kind: "clearing", externalTransactionId: "c2", ...of(1_000) })
      yield* send(id, { kind: "refund", externalTransactionId: "r0", originalTransactionId: "c0", ...of(5_000) })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { pending: 500_000n, awaitingFunding: 1_000_000n })
      yield* send(id, { kind: "refund", externalTransactionId: "r1", originalTransactionId: "c1", ...of(5_000) })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { pending: 1_000_000n })
      yield* audited
    }).pipe(Effect.provideService(Ledger.ServedAtOnce, servedAtOnce)))

  it.effect("an estimate is capped by the newest version with an open amount", () =>
    Effect.gen(function*() {
      const id = yield* setUp()
      const { publish } = yield* Programs
      const { now } = yield* (yield* SandboxClock).get(id)
      const nothing = definition(now + 600_000, { caps: { perMonth: "0", categories: [] } })
      yield* publish(id, ProgramId.make("base"), 2, nothing, [])
      yield* send(id, { kind: "authorization", externalTransactionId: "a1" })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { expected: 1_000_000n })
      yield* pass(id, 700_000)
      yield* send(id, { kind: "authorization", externalTransactionId: "a0", amount: { currency: "USD", amount: "0" } })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { expected: 1_000_000n })
      yield* send(id, { kind: "authorization", externalTransactionId: "a2" })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), {})
      yield* send(id, { kind: "reversal", externalTransactionId: "v2", authorizationId: "a2" })
      yield* processAll
      assert.deepStrictEqual(yield* usdc(id), { expected: 1_000_000n })
      yield* audited
    }))
})
