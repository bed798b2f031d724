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

/** Every other seed is run with such a small limit that most funding needs several transactions. */
const optionsOf = (seed: number): RunOptions =>
  seed % 2 === 0 ? { limits: { servedAtOnce: seed % 8 === 0 ? 1 : 0 } } : {}

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

  it.effect("more than a thousand dependents are applied in several transactions, before the user's next event", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const spend = { op: "spend" as const, user: "u1", currency: "USD", mcc: "5411", agoMillis: 0, later: true }
      const refunds = Array.from({ length: 1_100 }, (_, index): Operation => (
        { ...spend, kind: "refund", cents: 7n, transaction: `r${index}`, original: "c1" }
      ))
      const mismatch = yield* run([
        { op: "put", user: "u1", attributes: {} },
        { op: "publish", program: "pa", version: 1, leadMillis: 300_000, roundMillis: 1, definition: plainProgram },
        { op: "clock", to: 600_000 },
        { op: "deposit", asset: "USDC", user: "", reference: "d1", amount: 10n ** 9n },
        ...refunds,
        { ...spend, kind: "clearing", cents: 10_000n, transaction: "c1", original: "a1" },
        { op: "check" },
        { ...spend, kind: "authorization", cents: 10_000n, transaction: "a1" },
        { ...spend, kind: "refund", cents: 1n, transaction: "last", original: "c1", later: false },
        { op: "check" }
      ])
      if (mismatch !== undefined) assert.fail(report("the story", mismatch).slice(0, 4_000))
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
