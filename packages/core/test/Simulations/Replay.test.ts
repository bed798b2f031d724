import { Simulations } from "@card-rewards/core/Simulations"
import { IntegratorId, ProgramId } from "@card-rewards/domain/Ids"
import type { Simulation } from "@card-rewards/domain/Simulation"
import { instant, latestMillis, printTimestamp } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { parseSeeds } from "@card-rewards/testing/SeededRandom"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { generate } from "../model/Generate.ts"
import type { Operation } from "../model/Operation.ts"
import { run } from "../model/Run.ts"
import { readProgram } from "../ReadProgram.ts"
import { moneyLayer } from "../Spending.ts"
import { startMillis } from "../TestLayer.ts"

const services = Simulations.layer().pipe(Layer.provideMerge(moneyLayer))

const program = ProgramId.make("pa")

/**
 * Purchases, refunds and changes of users under one version of `pa`, in force before the first purchase. Nothing in the
 * history depends on the amounts of rewards, so that it is the same under another version.
 */
const history = (seed: number): ReadonlyArray<Operation> => {
  const random = generate(seed, operationsPerSeed)
  const version: Operation = {
    op: "publish",
    program: "pa",
    version: 1,
    leadMillis: 300_000,
    roundMillis: 1,
    definition: versionOf(seed)
  }
  const enrollments = random.filter(({ op }) => op === "put").slice(0, 2)
  return [...enrollments, version, { op: "clock", to: 40 * day }, ...random.flatMap(kept)]
}

const kept = (operation: Operation): ReadonlyArray<Operation> => {
  if (operation.op === "put" || operation.op === "again") return [operation]
  if (operation.op === "clock") return [{ op: "clock", to: typeof operation.to === "number" ? operation.to : 4 * day }]
  if (operation.op !== "spend") return []
  return [{ ...operation, currency: operation.currency === "EUR" ? "USD" : operation.currency }]
}

type Definition = (Operation & { readonly op: "publish" })["definition"]

/** A random version; two of three have caps that these histories reach. */
const versionOf = (seed: number): Definition => {
  const [found] = generate(seed, 0).flatMap((operation) =>
    operation.op === "publish" && operation.definition.asset === "USDC" ? [operation.definition] : []
  )
  if (found === undefined) return versionOf(seed + 1_000)
  return seed % 3 === 0 ? found : { ...found, caps: { ...found.caps, perMonth: "30000000" } }
}

const under = (operations: ReadonlyArray<Operation>, definition: Definition): ReadonlyArray<Operation> =>
  operations.map((operation) => operation.op === "publish" ? { ...operation, definition } : operation)

/** The number of seeds with which every kind of history comes up often enough. */
const reachingAll = 8
const seeds = parseSeeds(process.env["TEST_SEEDS"] ?? `${reachingAll}`)
const operationsPerSeed = 90
const day = 86_400_000

let made = 0
const play = Effect.fnUntraced(function*(operations: ReadonlyArray<Operation>) {
  const integratorId = IntegratorId.make(`simulated-${++made}`)
  assert.isUndefined(yield* run(operations, { integratorId }))
  yield* processAll
  return integratorId
})

/** One side of a simulation. */
const sideOf = (simulation: Simulation, side: "paid" | "wouldPay") => {
  const list = (parts: Simulation["byMonth"]) =>
    parts.filter((part) => part[side] > 0n).map((part) => [part.key, part[side]])
  return {
    transactions: simulation.transactions,
    users: simulation.users,
    total: simulation[side],
    byMonth: list(simulation.byMonth),
    byCategory: list(simulation.byCategory),
    byTier: list(simulation.byTier)
  }
}

/** The paid amounts, read from the rewards. */
const paidBy = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  key: "month" | "category",
  from: number,
  to: number
) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ key: string; paid: bigint; at: number }>`
    SELECT purchase_at AS at, coalesce(category_id, '') AS key, amount AS paid FROM rewards
    WHERE integrator_id = ${integratorId} AND program_id = 'pa' AND amount > 0`
  const sums = new Map<string, bigint>()
  for (const row of rows) {
    const group = key === "month" ? printTimestamp(row.at).slice(0, 7) : row.key
    if (row.at >= from && row.at < to) sums.set(group, (sums.get(group) ?? 0n) + row.paid)
  }
  return [...sums].sort(([left], [right]) => left < right ? -1 : 1)
})

const published = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const { versions } = yield* readProgram(integratorId, program)
  return versions[0]?.definition ?? assert.fail("nothing is published")
})

const start = instant(startMillis)
const end = instant(latestMillis)

layer(services)("a simulation", (it) => {
  it.effect("of the version in force has the paid amounts, of another version those that it would have paid", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const { simulate } = yield* Simulations
      const totals = { purchases: 0, differ: 0, capped: 0, refunds: 0, tiers: 0, months: 0 }
      for (const seed of seeds) {
        const operations = history(seed)
        const real = yield* play(operations)
        const other = yield* play(under(operations, versionOf(seed + 500)))
        const inForce = yield* published(real)
        const candidate = yield* published(other)
        const cut = instant(startMillis + (45 + seed) * day)
        for (const [from, to] of [[start, end], [start, cut], [cut, end]] as const) {
          const same = yield* simulate(real, program, { definition: inForce, from, to }, [])
          assert.deepStrictEqual(sideOf(same, "wouldPay"), sideOf(same, "paid"), `seed ${seed}`)
          assert.deepStrictEqual([same.gaining, same.losing], [0, 0])
          assert.deepStrictEqual(sideOf(same, "paid").byMonth, yield* paidBy(real, "month", from, to), `seed ${seed}`)
          assert.deepStrictEqual(
            sideOf(same, "paid").byCategory,
            yield* paidBy(real, "category", from, to),
            `seed ${seed}`
          )
          const tried = yield* simulate(real, program, { definition: candidate, from, to }, [])
          const lived = yield* simulate(other, program, { definition: candidate, from, to }, [])
          assert.deepStrictEqual(sideOf(tried, "wouldPay"), sideOf(lived, "paid"), `seed ${seed}`)
          assert.deepStrictEqual(sideOf(tried, "paid"), sideOf(same, "paid"), `seed ${seed}`)
          if (to !== end || from !== start) continue
          totals.purchases += tried.transactions
          if (tried.wouldPay !== tried.paid) totals.differ += 1
          if (tried.cappedAway > 0n) totals.capped += 1
          totals.tiers += tried.byTier.length
          totals.months += tried.byMonth.length
        }
      }
      const sql = yield* SqlClient.SqlClient
      const [refunded] = yield* sql<{ count: number }>`SELECT count(*)::int AS count FROM rewards
        WHERE program_id = 'pa' AND refunded_spend > 0 AND integrator_id LIKE 'simulated-%'`
      totals.refunds = refunded?.count ?? 0
      if (seeds.length < reachingAll) return
      assert.isAbove(totals.purchases, 8 * seeds.length, JSON.stringify(totals))
      assert.isAbove(totals.differ, seeds.length / 3, JSON.stringify(totals))
      assert.isAbove(totals.capped, 0, JSON.stringify(totals))
      assert.isAbove(totals.refunds, seeds.length, JSON.stringify(totals))
      assert.isAbove(totals.tiers, seeds.length, JSON.stringify(totals))
    }), 600_000)
})
