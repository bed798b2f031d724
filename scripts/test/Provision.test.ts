import { makeMigrated } from "@card-rewards/dev-postgres/TestDatabase"
import * as Database from "@card-rewards/core/Database"
import { maxActiveKeys } from "@card-rewards/domain/ApiKey"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { createDemo } from "../start/Provision.ts"

it.live("a demo whose key is lost at each start gets another key each time, however often", () =>
  Effect.gen(function*() {
    const url = yield* makeMigrated(Database.migrate)
    const made = new Set<string>()
    for (let start = 0; start < maxActiveKeys + 3; start++) made.add((yield* createDemo(url)).apiKey)
    assert.strictEqual(made.size, maxActiveKeys + 3)
    assert.isFalse(made.has(""))
  }).pipe(Effect.scoped), 60_000)
