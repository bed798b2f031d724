import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Integrators } from "../src/Integrators.ts"
import { liveMoneyLayer } from "./Spending.ts"

const usdc = (amount: bigint) => ({ asset: "USDC" as const, amount })
const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000)

/** A new integrator with a program that pays 1 % at once into holding, and its users. */
const setUp = Effect.fnUntraced(function*(name: string, users: number) {
  const integratorId = IntegratorId.make(name)
  yield* (yield* Integrators).create(integratorId)
  const clock = yield* SandboxClock
  const { now } = yield* clock.get(integratorId)
  yield* (yield* Programs).publish(integratorId, ProgramId.make("p"), 1, definition(now + 400_000), [])
  yield* clock.set(integratorId, instant(now + 500_000))
  const { put } = yield* Users
  yield* Effect.forEach(Array.from({ length: users }), (_, user) => put(integratorId, UserId.make(`u${user}`), {}), {
    concurrency: 8
  })
  return { integratorId, at: now + 450_000 }
})

/** The vault's free money after each transaction, and the balances in its events of low funds. */
const history = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ free: bigint }>`
    SELECT sum(change) OVER (ORDER BY entry)::numeric AS free FROM (
      SELECT max(entry) AS entry, sum(CASE 'free' WHEN to_account THEN amount WHEN from_account THEN -amount ELSE 0 END)
        AS change
      FROM journal WHERE integrator_id = ${integratorId} AND asset = 'USDC' GROUP BY xmin
    ) transactions ORDER BY entry`
  const events = yield* sql<{ free: string }>`
    SELECT body::jsonb->'data'->'balance'->>'free' AS free FROM events
    WHERE integrator_id = ${integratorId} AND kind = 'vault.low_funds' ORDER BY event`
  return { free: rows.map(({ free }) => free), noticed: events.map(({ free }) => BigInt(free)) }
})

layer(liveMoneyLayer, { excludeTestServices: true })("low funds", (it) => {
  it.effect(`are announced once for each fall below the threshold, by the transaction that did it (seed ${seed})`, () =>
    Effect.gen(function*() {
      const { at, integratorId } = yield* setUp("falls", 50)
      const random = SeededRandom.make(seed)
      const vault = yield* Vault
      const { submitAll } = yield* SpendEvents
      const { processEvents } = yield* Processing
      const threshold = 3_000_000n
      yield* vault.setLowFunds(integratorId, "USDC", threshold)
      yield* vault.deposit(integratorId, { reference: Reference.make("first"), amount: usdc(4_000_000n) })
      const moves = Array.from({ length: 60 }, (_, index) => {
        const move = { reference: Reference.make(`m${index}`), amount: usdc(BigInt(random.integer(1, 2_000_000))) }
        return random.chance(0.55) ? vault.deposit(integratorId, move) : vault.withdraw(integratorId, move)
      })
      const batches = Array.from({ length: 100 }, (_, batch) =>
        submitAll(Array.from({ length: 3 }, (_, index) =>
          spendEvent(integratorId, `u${random.below(50)}`, at, {
            kind: "clearing",
            externalTransactionId: `b${batch}-${index}`,
            amount: usd(random.integer(100, 5_000))
          }))))
      const step = Effect.ignore(processEvents)
      const work = Array.from({ length: 120 }, () => step)
      yield* Effect.forEach(random.shuffled([...moves, ...batches, ...work]), (one) => Effect.ignore(one), {
        concurrency: 12,
        discard: true
      })
      while ((yield* processEvents) > 0);
      const { free, noticed } = yield* history(integratorId)
      const falls = free.filter((after, index) => (free[index - 1] ?? 0n) >= threshold && after < threshold)
      assert.deepStrictEqual(noticed, falls)
      assert.isAbove(noticed.length, 0)
    }))

  it.effect("are announced again only after the money was back, and not where there is no threshold", () =>
    Effect.gen(function*() {
      const { integratorId } = yield* setUp("again", 1)
      const vault = yield* Vault
      let made = 0
      const move = (kind: "deposit" | "withdraw", amount: bigint) =>
        vault[kind](integratorId, { reference: Reference.make(`r${made++}`), amount: usdc(amount) })
      yield* move("deposit", 100n)
      yield* vault.setLowFunds(integratorId, "USDC", 150n)
      yield* move("withdraw", 10n)
      yield* move("deposit", 60n)
      yield* move("withdraw", 1n)
      yield* move("withdraw", 1n)
      yield* move("deposit", 2n)
      yield* move("withdraw", 100n)
      assert.deepStrictEqual(yield* vault.removeLowFunds(integratorId, "USDC"), { asset: "USDC", threshold: 150n })
      assert.deepStrictEqual(yield* vault.removeLowFunds(integratorId, "USDC"), { asset: "USDC" })
      yield* move("deposit", 100n)
      yield* move("withdraw", 50n)
      assert.deepStrictEqual((yield* history(integratorId)).noticed, [149n, 50n])
    }))

  it.effect("may have their threshold changed while money moves", () =>
    Effect.gen(function*() {
      const { integratorId } = yield* setUp("changes", 1)
      const { deposit, get, removeLowFunds, setLowFunds } = yield* Vault
      const steps = Array.from({ length: 60 }, (_, index) => [
        Effect.asVoid(deposit(integratorId, { reference: Reference.make(`d${index}`), amount: usdc(1n) })),
        Effect.asVoid(
          index % 2 === 0 ? setLowFunds(integratorId, "USDC", 1n) : removeLowFunds(integratorId, "USDC")
        )
      ])
      yield* Effect.forEach(steps.flat(), (step) => step, { concurrency: 8, discard: true })
      const { balances } = yield* get(integratorId)
      assert.deepStrictEqual(balances[0], { asset: "USDC", held: 60n, free: 60n })
    }))
})
