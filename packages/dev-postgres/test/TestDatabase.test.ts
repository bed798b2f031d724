import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { expect, it } from "@effect/vitest"
import { Effect, Exit, Redacted, Scope } from "effect"
import { randomUUID } from "node:crypto"
import * as Owners from "./support/Owners.ts"

const databaseOf = (url: Redacted.Redacted) => new URL(Redacted.value(url)).pathname.slice(1)

/** Options whose `migrate` counts its calls. */
const counted = () => {
  const migrated = { times: 0 }
  const options = {
    fingerprint: randomUUID().replaceAll("-", ""),
    migrate: (url: Redacted.Redacted) =>
      Effect.suspend(() => {
        migrated.times++
        return Owners.query(url, (sql) => sql`CREATE TABLE thing (id int PRIMARY KEY)`).pipe(Effect.orDie)
      })
  }
  return { migrated, options }
}

it.live("databases of one fingerprint are migrated once and are separate", () =>
  Effect.gen(function*() {
    const { migrated, options } = counted()
    const [first, second] = yield* Effect.all(
      [TestDatabase.make(options), TestDatabase.make(options)],
      { concurrency: "unbounded" }
    )
    yield* Owners.query(first, (sql) => sql`INSERT INTO thing VALUES (1)`)
    expect(yield* Owners.query(first, (sql) => sql`SELECT id FROM thing`)).toEqual([{ id: 1 }])
    expect(yield* Owners.query(second, (sql) => sql`SELECT id FROM thing`)).toEqual([])
    expect(migrated.times).toBe(1)
  }))

it.live("a database is dropped with its scope, even while a client is connected", () =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const url = yield* TestDatabase.make(counted().options).pipe(Scope.provide(scope))
    const outcome = yield* Owners.query(url, () => Scope.close(scope, Exit.void)).pipe(Effect.exit)
    expect(outcome._tag).toBeDefined()
    const name = databaseOf(url)
    expect(
      yield* Owners.query(TestDatabase.serverUrl(), (sql) =>
        sql`SELECT datname FROM pg_database WHERE datname = ${name}`)
    ).toEqual([])
  }))

it.live("a template whose migration failed is created again", () =>
  Effect.gen(function*() {
    const { options } = counted()
    yield* Effect.flip(TestDatabase.make({ ...options, migrate: () => Effect.fail("no") }))
    const url = yield* TestDatabase.make(options)
    expect(yield* Owners.query(url, (sql) => sql`SELECT id FROM thing`)).toEqual([])
  }))
