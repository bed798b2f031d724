import { Audit } from "@card-rewards/core/Audit"
import { parseSeeds } from "@card-rewards/testing/SeededRandom"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { recoveries } from "./model/Recoveries.ts"
import { run, type RunOptions } from "./model/Run.ts"
import { report, shrink } from "./model/Shrink.ts"
import { generateSizes, type Kind, kinds, type Size } from "./model/Sizes.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

/**
 * `TEST_SEEDS`: the number of stories of each kind, or single seeds as `7,8`; the default seeds have found faults. A
 * tenth as many large stories are run.
 */
const seeds = parseSeeds(process.env["TEST_SEEDS"] ?? "14,18,35")
const largeSeeds = parseSeeds(`${Math.max(1, Math.floor(seeds.length / 10))}`)

/** `TEST_LENGTH` is about the number of operations of a story besides spend events; a round has about twenty. */
const rounds = Math.ceil(Number(process.env["TEST_LENGTH"] ?? "40") / 20)

/** The maximum number of replays for shrinking; one of a large story takes seconds. */
const maxSmallReplays = 150
const maxLargeReplays = 12

interface Case {
  readonly kind: Kind
  readonly seed: number
  readonly size: Size
  readonly options: RunOptions
}

/** With small limits a few rewards need as many transactions as thousands with the defaults. */
const smallCase = (kind: Kind, seed: number): Case => {
  const at = <A>(list: readonly [A, ...Array<A>], index: number): A => list[index % list.length] ?? list[0]
  const pieceSize = at([1, 2, 7, 50], seed)
  const servedAtOnce = at([1, 7, 50, 2, 0], seed)
  const paidAtOnce = at([1, 3, 1_000, 10], seed + (seed >> 2))
  const clearings = at([20, 30, 60, 120], seed)
  const users = kind === "many users owe" ? Math.ceil(clearings / 8) : 3
  const options = { bulk: true, limits: { paidAtOnce, pieceSize, servedAtOnce } }
  return { kind, seed, size: { clearings, users, rounds }, options }
}

/** More rewards come due at one time, and are paid by one claim, than one transaction applies with the defaults. */
const largeSizes: Readonly<Partial<Record<Kind, Size>>> = {
  "one user owes": { clearings: 900, users: 3, rounds: Math.ceil(rounds / 2) },
  "many users owe": { clearings: 600, users: 200, rounds: Math.ceil(rounds / 2) },
  claims: { clearings: 1_500, users: 3, rounds: Math.ceil(rounds / 2) }
}

const largeCase = (kind: Kind, seed: number): ReadonlyArray<Case> => {
  const size = largeSizes[kind]
  return size === undefined ? [] : [{ kind, seed, size, options: { bulk: true, limits: {} } }]
}

/** The number of rewards before the first one whose money is assigned, and the limits for that. */
const fundings = [
  [250, {}],
  [1, { servedAtOnce: 1, pieceSize: 1, paidAtOnce: 1 }],
  [2, { servedAtOnce: 2, pieceSize: 2, paidAtOnce: 1 }],
  [0, { servedAtOnce: 0, pieceSize: 2, paidAtOnce: 1 }],
  [0, { servedAtOnce: 5, pieceSize: 2, paidAtOnce: 1 }]
] as const

const test = Effect.fnUntraced(function*(cases: ReadonlyArray<Case>, replays: number) {
  yield* TestClock.setTime(startMillis)
  const found: Array<string> = []
  for (const { kind, options, seed, size } of cases) {
    const operations = generateSizes(kind, seed, size)
    const mismatch = yield* run(operations, options)
    if (mismatch === undefined) continue
    const shrunk = yield* shrink(operations, mismatch, options, replays)
    found.push(report(`${kind}, seed ${seed} ${JSON.stringify(options.limits)}`, shrunk.mismatch))
    if (found.length >= 3) break
  }
  if (found.length > 0) assert.fail(found.join("\n\n"))
})

/** For more seeds than the default. */
const timeout = 600_000

layer(moneyLayer)("stories of many rewards", (it) => {
  for (const { guarantee, story } of recoveries) {
    it.effect(guarantee, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(startMillis)
        const found: Array<string> = []
        for (const [fillers, limits] of fundings) {
          const mismatch = yield* run(story(fillers), { bulk: true, limits })
          if (mismatch !== undefined) found.push(report(`behind ${fillers} rewards`, mismatch))
        }
        if (found.length > 0) assert.fail(found.join("\n\n"))
      }))
  }

  for (const kind of kinds) {
    it.effect(`a ledger with small limits follows the rules in many transactions: ${kind}`, () =>
      test(seeds.map((seed) => smallCase(kind, seed)), maxSmallReplays), timeout)

    const large = largeSeeds.flatMap((seed) => largeCase(kind, seed))
    if (large.length === 0) continue
    it.effect(`thousands of rewards follow the same rules as a few: ${kind}`, () =>
      test(large, maxLargeReplays), timeout)
  }

  it.effect("the audit finds nothing after all stories", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
      const sql = yield* SqlClient.SqlClient
      const recoveries = yield* sql`SELECT 1 FROM rewards WHERE recovered > 0 LIMIT 1000`
      assert.isAbove(recoveries.length, 100, "the stories reach recoveries")
    }), timeout)
})
