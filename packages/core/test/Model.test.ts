import { Audit } from "@card-rewards/core/Audit"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { inspect } from "node:util"
import { generate, type Operation } from "./model/Generate.ts"
import { type Mismatch, run, type RunOptions } from "./model/Run.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

/** `TEST_SEEDS`: how many, or single ones as `7,8`. */
const parseSeeds = (text: string): ReadonlyArray<number> =>
  text.includes(",") ? text.split(",").map(Number) : Array.from({ length: Number(text) }, (_, index) => index + 1)

const seeds = parseSeeds(process.env["TEST_SEEDS"] ?? "40")
const operationsPerSeed = Number(process.env["TEST_LENGTH"] ?? "60")

/** Replays that shrinking may take. */
const maxReplays = 400

/** Every other seed is run with so small limits that most funding, and what is due, takes several transactions. */
const optionsOf = (seed: number): RunOptions => {
  if (seed % 2 === 1) return {}
  const servedAtOnce = seed % 8 === 0 ? 1 : 0
  return seed % 4 === 0 ? { servedAtOnce } : { servedAtOnce, pieceSize: 1 + seed % 3 }
}

const attempt = Effect.fnUntraced(function*(operations: ReadonlyArray<Operation>, options: RunOptions = {}) {
  const exit = yield* Effect.exit(run(operations, options))
  if (Exit.isSuccess(exit)) return exit.value
  const failed: Mismatch = {
    index: operations.length - 1,
    what: "the run itself",
    expected: "no failure",
    actual: Cause.pretty(exit.cause),
    story: []
  }
  return failed
})

/** Drops operations, in ever smaller pieces, while the rest still fails. */
const shrink = Effect.fnUntraced(function*(operations: ReadonlyArray<Operation>, first: Mismatch, options: RunOptions) {
  let best = { operations: operations.slice(0, first.index + 1), mismatch: first }
  let replays = 0
  for (let size = Math.ceil(best.operations.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = best.operations.length - size; at > -size && replays < maxReplays; at -= size) {
      const start = Math.max(at, 0)
      const fewer = [...best.operations.slice(0, start), ...best.operations.slice(at + size)]
      replays++
      const mismatch = yield* attempt(fewer, options)
      if (mismatch !== undefined) best = { operations: fewer.slice(0, mismatch.index + 1), mismatch }
    }
  }
  return best
})

const report = (seed: number, { actual, expected, story, what }: Mismatch): string => {
  const show = (value: unknown) => inspect(value, { depth: 10, breakLength: 160, maxArrayLength: 20 })
  return `seed ${seed}, ${what}\n  ${story.join("\n  ")}\nexpected ${show(expected)}\nactual ${show(actual)}`
}

layer(moneyLayer)("the money rules, by a naive model", (it) => {
  it.effect("the service does what the model does, whatever happens in whatever order", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const stories: Array<string> = []
      for (const seed of seeds) {
        const operations = generate(seed, operationsPerSeed)
        const options = optionsOf(seed)
        const found = yield* attempt(operations, options)
        if (found === undefined) continue
        const { mismatch } = yield* shrink(operations, found, options)
        stories.push(report(seed, mismatch))
        if (stories.length >= 3) break
      }
      if (stories.length > 0) assert.fail(stories.join("\n\n"))
      const sql = yield* SqlClient.SqlClient
      const recoveries = yield* sql<{ count: bigint }>`SELECT count(*) FROM events
        WHERE kind IN ('reward.recovered', 'reward.claimable') AND body::json->'data'->>'recovered' <> '0'`
      if (seeds.length >= 40) assert.isAbove(Number(recoveries[0]?.count ?? 0n), 40, "the sequences reach recoveries")
      const assigned = yield* sql<{ count: bigint }>`SELECT count(*) FROM journal WHERE to_account = 'assigned'`
      if (seeds.length >= 40) assert.isAbove(Number(assigned[0]?.count ?? 0n), 20, "the sequences reach assigned money")
      assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
    }), 600_000)

  it.effect("more than a thousand dependents take several transactions and all come before the user's next event", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const spend = { op: "spend" as const, user: "u1", currency: "USD", mcc: "5411", agoMillis: 0, later: true }
      const refunds = Array.from({ length: 1_100 }, (_, index): Operation => (
        { ...spend, kind: "refund", cents: 7n, transaction: `r${index}`, original: "c1" }
      ))
      const mismatch = yield* attempt([
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
      if (mismatch !== undefined) assert.fail(report(0, mismatch).slice(0, 4_000))
    }), 60_000)

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
      const mismatch = yield* attempt([
        { op: "put", user: "u1", attributes: {} },
        { op: "publish", program: "pa", version: 1, leadMillis: 300_000, roundMillis: 1, definition: plainProgram },
        { op: "clock", to: 600_000 },
        { ...spend, kind: "clearing", transaction: "c1", original: "a1", later: true },
        { ...spend, kind: "authorization", transaction: "a1", later: false },
        { op: "check" }
      ])
      if (mismatch !== undefined) assert.fail(report(0, mismatch))
    }))
})
