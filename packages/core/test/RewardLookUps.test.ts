import { IntegratorId, Reference, UserId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { Integrators } from "../src/Integrators.ts"
import { withRewardId } from "../src/Journal/EntryText.ts"
import { Rewards } from "../src/Rewards.ts"
import { Vault } from "../src/Vault.ts"
import { addRewards } from "./BulkRewards.ts"
import { liveMoneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

interface Plan {
  readonly "Relation Name"?: string
  readonly "Index Name"?: string
  readonly "Index Cond"?: string
  readonly Plans?: ReadonlyArray<Plan>
}

const nodes = (plan: Plan): ReadonlyArray<Plan> => [plan, ...(plan.Plans ?? []).flatMap(nodes)]

type Compiled = readonly [text: string, parameters: ReadonlyArray<unknown>]

/** The statements about rewards that an effect executes. */
const statementsOf = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  const statements: Array<Compiled> = []
  yield* Effect.provideService(effect, Statement.CurrentTransformer, (statement) =>
    Effect.sync(() => {
      const [text, parameters] = statement.compile()
      if (/\brewards\b/.test(text)) statements.push([text, parameters])
      return statement
    }))
  return statements
})

/** The indexes by which statements search rewards of one user, by name, where the schema is changed before. */
const searched = Effect.fnUntraced(function*(change: string, statements: ReadonlyArray<Compiled>) {
  const sql = yield* SqlClient.SqlClient
  const names: Array<string> = []
  const explained = Effect.gen(function*() {
    yield* sql.unsafe(change)
    for (const [text, parameters] of statements) {
      const rows = yield* sql.unsafe<Readonly<Record<string, ReadonlyArray<{ readonly Plan: Plan }>>>>(
        `EXPLAIN (FORMAT JSON) ${text}`,
        parameters
      )
      const plan = Object.values(rows[0] ?? {})[0]?.[0]?.Plan ?? {}
      for (const node of nodes(plan)) {
        if (node["Relation Name"] === "rewards" && node["Index Cond"]?.includes("user_id") === true) {
          names.push(node["Index Name"] ?? "none")
        }
      }
    }
    return yield* Effect.fail("undo" as const)
  })
  yield* Effect.catchIf(sql.withTransaction(explained), (error) => error === "undo", () => Effect.void)
  return names
})

layer(liveMoneyLayer, { excludeTestServices: true })("a user's rewards", (it) => {
  it.effect("are searched by creation in one index alone, and by key in another one alone", () =>
    Effect.gen(function*() {
      const [integratorId, userId] = [IntegratorId.make("acme"), UserId.make("ann")]
      const sql = yield* SqlClient.SqlClient
      yield* (yield* Integrators).create(integratorId)
      const rewards = { count: 20, state: "Claimable", claimableAt: startMillis } as const
      yield* addRewards(integratorId, { ...rewards, prefix: userId, users: "one" })
      yield* addRewards(integratorId, { ...rewards, prefix: "other-", users: 20 })
      const claim = { reference: Reference.make("c"), userId, amount: { asset: "USDC", amount: 3n } } as const
      const byCreation = [
        ...yield* statementsOf((yield* Vault).claim(integratorId, claim)),
        ...yield* statementsOf((yield* Rewards).list(integratorId, userId, { limit: 10, cursor: undefined })),
        ...yield* statementsOf(sql`SELECT r.id FROM journal j ${sql.literal(withRewardId)}`)
      ].filter(([text]) => text.includes("POSIX"))
      assert.lengthOf(byCreation, 3)
      const byKey = yield* statementsOf(
        sql`SELECT FROM rewards WHERE integrator_id = ${integratorId} AND user_id = ${userId} AND kind = 'clearing'
          AND external_transaction_id = 't' AND program_id = 'p'`
      )
      const unchanged = yield* searched("SELECT", byCreation)
      assert.isAtLeast(unchanged.length, 3)
      assert.deepStrictEqual([...new Set(unchanged)].filter((name) => !name.includes("claimable")), ["rewards_of_user"])
      assert.notInclude(yield* searched("DROP INDEX rewards_of_user", byCreation), "rewards_pkey")
      assert.deepStrictEqual(yield* searched("SELECT", byKey), ["rewards_pkey"])
      assert.deepStrictEqual(yield* searched("ALTER TABLE rewards DROP CONSTRAINT rewards_pkey", byKey), [])
    }))
})
