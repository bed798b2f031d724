import { makeEmpty } from "@card-rewards/dev-postgres/TestDatabase"
import { assert, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { schemaOf } from "../src/AwaitSchema.ts"
import * as Database from "../src/Database.ts"
import { type ActionOutcome, insertAction, type NewAction } from "../src/OperatorActions/RecordAction.ts"
import { randomUUID } from "node:crypto"

const action = (): NewAction =>
  ({ actionId: randomUUID(), osUser: "root", host: "host", command: "migrate", arguments: {} })

it.live("migrations and their record are one transaction", () =>
  Effect.gen(function*() {
    const url = yield* makeEmpty
    const config = { url, poolSize: 1, applicationName: "test" }
    const run = <A, E>(effect: Effect.Effect<A, E, SqlClient.SqlClient>) =>
      Effect.provide(effect, Database.layer(config))
    const unrecorded = yield* Effect.exit(Database.migrate(url, {
      record: () => Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.asVoid(sql`SELECT 1 / 0`))
    }))
    assert.isTrue(Exit.isFailure(unrecorded))
    assert.strictEqual(yield* schemaOf(config), 0)

    const outcomes: Array<ActionOutcome> = []
    for (const one of [action(), action()]) {
      const record = (outcome: ActionOutcome) =>
        Effect.andThen(insertAction(one, outcome), () => Effect.sync(() => void outcomes.push(outcome)))
      yield* Database.migrate(url, { record })
    }
    assert.deepStrictEqual(outcomes, ["done", "unchanged"])
    // the same run of a command, which was repeated
    const twice = action()
    yield* run(insertAction(twice, "began"))
    yield* run(insertAction(twice, "refused", "too late"))
    const rows = yield* run(Effect.flatMap(SqlClient.SqlClient, (sql) =>
      sql<{ outcome: string }>`SELECT outcome FROM operator_actions ORDER BY at`))
    assert.deepStrictEqual(rows.map(({ outcome }) => outcome), ["done", "unchanged", "began"])
    for (const wrong of [{ command: "Migrate" }, { arguments: { text: "x".repeat(17_000) } }]) {
      const refused = yield* Effect.exit(run(insertAction({ ...action(), ...wrong }, "done")))
      assert.isTrue(Exit.isFailure(refused))
    }
    assert.isTrue(Exit.isFailure(yield* Effect.exit(run(insertAction(action(), "done", "a reason")))))
    assert.isTrue(Exit.isFailure(yield* Effect.exit(run(insertAction(action(), "refused")))))
  }).pipe(Effect.scoped))
