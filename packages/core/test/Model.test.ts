import { Audit } from "@card-rewards/core/Audit"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { parseSeeds } from "@card-rewards/testing/SeededRandom"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { generate } from "./model/Generate.ts"
import type { Operation } from "./model/Operation.ts"
import { run, type RunOptions } from "./model/Run.ts"
import { report, shrink } from "./model/Shrink.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

/** The number of stories with which recoveries and assigned money come up often enough. */
const reachingAll = 24
const seeds = parseSeeds(process.env["TEST_SEEDS"] ?? `${reachingAll}`)
const quotedSeeds = parseSeeds(process.env["TEST_QUOTED_SEEDS"] ?? "6")
const operationsPerSeed = Number(process.env["TEST_LENGTH"] ?? "60")

/**
 * Every other seed is run with such a small limit that most funding needs several transactions, and a quarter of them
 * by a worker that starts anew before each step.
 */
const optionsOf = (seed: number): RunOptions =>
  seed % 2 === 0 ? { limits: { servedAtOnce: seed % 8 === 0 ? 1 : 0 } } : { restarting: seed % 4 === 1 }

const countOf = (query: string) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ count: number }>`${sql.literal(query)}`
    return rows[0]?.count ?? 0
  })

const recoveryCount = countOf(`SELECT count(*)::int AS count FROM events
  WHERE kind IN ('reward.recovered', 'reward.claimable') AND body::json->'data'->>'recovered' <> '0'`)
const assignmentCount = countOf("SELECT count(*)::int AS count FROM journal WHERE to_account = 'assigned'")

layer(moneyLayer)("the money rules, by a naive model", (it) => {
  it.effect("the service does what the model does, for any sequence of operations", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const stories: Array<string> = []
      for (const seed of seeds) {
        const operations = generate(seed, operationsPerSeed)
        const options = optionsOf(seed)
        const found = yield* run(operations, options)
        if (found === undefined) continue
        const { mismatch } = yield* shrink(operations, found, options)
        stories.push(report(`seed ${seed}`, mismatch))
        if (stories.length >= 3) break
      }
      if (stories.length > 0) assert.fail(stories.join("\n\n"))
      if (seeds.length >= reachingAll) {
        assert.isAbove(yield* recoveryCount, seeds.length / 2, "the sequences reach recoveries")
        assert.isAbove(yield* assignmentCount, seeds.length / 2, "the sequences reach assigned money")
      }
      assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
    }), 600_000)

  it.effect("a quote is what the clearing that follows earns", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      for (const seed of quotedSeeds) {
        const mismatch = yield* run(generate(seed + 10_000, operationsPerSeed), { quoted: true })
        if (mismatch !== undefined) assert.fail(report(`seed ${seed + 10_000}, with quotes`, mismatch))
      }
    }), 600_000)

  const dependents = [
    ["an authorization", "USD", ["c1", "a1"], {}],
    ["an authorization in another currency", "EUR", ["c1", "a1"], { restarting: true }],
    ["a clearing without an authorization", "USD", ["c1"], { restarting: true }]
  ] as const
  for (const [name, currency, transactions, options] of dependents) {
    it.effect(`more than a thousand dependents of ${name} are applied in several transactions, in order`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(startMillis)
        const spend = { op: "spend" as const, user: "u1", mcc: "5411", agoMillis: 0, later: true }
        const refund = { ...spend, kind: "refund" as const, currency, original: "c1" }
        const refunds = Array.from({ length: 1_100 }, (_, index): Operation => (
          { ...refund, cents: 7n, transaction: `r${index}` }
        ))
        const original = transactions.length > 1 ? { original: "a1" } : {}
        const purchase = transactions.map((transaction): Operation =>
          transaction === "c1"
            ? { ...spend, kind: "clearing", currency, cents: 10_000n, transaction, ...original }
            : { ...spend, kind: "authorization", currency: "USD", cents: 10_000n, transaction })
        const program = { op: "publish" as const, version: 1, leadMillis: 300_000, roundMillis: 1 }
        const mismatch = yield* run([
          { op: "put", user: "u1", attributes: {} },
          { ...program, program: "pa", definition: plainProgram },
          { ...program, program: "pe", definition: { ...plainProgram, asset: "EURe" } },
          { op: "clock", to: 600_000 },
          { op: "deposit", asset: "USDC", user: "", reference: "d1", amount: 10n ** 9n },
          { op: "deposit", asset: "EURe", user: "", reference: "d2", amount: 10n ** 9n },
          // stays open, so that each refund changes what is expected
          { ...spend, kind: "authorization", currency, cents: 500n, transaction: "a0" },
          ...refunds,
          ...purchase.slice(0, -1),
          { op: "check" },
          ...purchase.slice(-1),
          { ...refund, cents: 1n, transaction: "last", later: false },
          { op: "check" }
        ], { ...options, bulk: "of one user" })
        if (mismatch !== undefined) assert.fail(report("the story", mismatch).slice(0, 4_000))
      }))
  }

  it.effect("the last estimate of the newest version ends, where the worker has compiled no version yet", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const spend = { op: "spend" as const, user: "u1", currency: "USD", cents: 500n, mcc: "5411", agoMillis: 0 }
      const program = { op: "publish" as const, program: "pa", leadMillis: 300_000, roundMillis: 1 }
      const mismatch = yield* run([
        { op: "put", user: "u1", attributes: {} },
        { ...program, version: 1, definition: plainProgram },
        { op: "clock", to: 600_000 },
        { ...spend, kind: "authorization", transaction: "a1", later: false },
        { ...program, version: 2, definition: { ...plainProgram, baseRate: 200 } },
        { op: "clock", to: 600_000 },
        { ...spend, kind: "authorization", transaction: "a2", later: false },
        { ...spend, kind: "clearing", transaction: "c2", original: "a2", later: false },
        { op: "check" }
      ], { restarting: true })
      if (mismatch !== undefined) assert.fail(report("the story", mismatch))
    }))

  it.effect("a clearing that one batch sets aside is applied with its authorization in the same batch", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const spend = {
        op: "spend" as const,
        user: "u1",
        currency: "USD",
        cents: 1_000n,
        mcc: "5411",
        agoMillis: 0
      }
      const mismatch = yield* run([
        { op: "put", user: "u1", attributes: {} },
        { op: "publish", program: "pa", version: 1, leadMillis: 300_000, roundMillis: 1, definition: plainProgram },
        { op: "clock", to: 600_000 },
        { ...spend, kind: "clearing", transaction: "c1", original: "a1", later: true },
        { ...spend, kind: "authorization", transaction: "a1", later: false },
        { op: "check" }
      ])
      if (mismatch !== undefined) assert.fail(report("the story", mismatch))
    }))
})
