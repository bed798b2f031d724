import { Effect, Redacted, type Scope } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import { inject } from "vitest"
import { createHash, randomUUID } from "node:crypto"
import { globSync, readFileSync } from "node:fs"
import * as AdminSql from "./AdminSql.ts"

declare module "vitest" {
  export interface ProvidedContext {
    /** The superuser's address of the test run's server; see vitestSetup.ts. */
    readonly postgresUrl: string
  }
}

/** The template of a test file's databases. */
export interface TestDatabaseOptions<E, R> {
  /** Names the template: it must change when the result of `migrate` changes. */
  readonly fingerprint: string
  /**
   * Fills the template; runs once per test run and fingerprint. Every connection it opens must be closed when it ends.
   */
  readonly migrate: (url: Redacted.Redacted) => Effect.Effect<void, E, R>
}

/**
 * Returns the address, as the superuser, of a new database that is a copy of a migrated template. The database is
 * dropped with the scope. Any number of test workers may call this at once.
 */
export const make = Effect.fn("TestDatabase.make")(function*<E, R>(
  options: TestDatabaseOptions<E, R>
): Effect.fn.Return<Redacted.Redacted, E | SqlError, R | Scope.Scope> {
  const adminUrl = serverUrl()
  const template = yield* ensureTemplate(adminUrl, options)
  const name = `test_${randomUUID().replaceAll("-", "")}`
  const runAdmin = <A>(use: (sql: AdminSql.Connection) => Effect.Effect<A, SqlError>) =>
    Effect.scoped(Effect.flatMap(AdminSql.connect(adminUrl), use))
  yield* Effect.acquireRelease(
    runAdmin((sql) => AdminSql.createDatabase(sql, name, template)),
    () => runAdmin((sql) => AdminSql.dropDatabase(sql, name)).pipe(Effect.orDie)
  )
  return AdminSql.withDatabase(adminUrl, name)
})

/**
 * {@link make} with the service's schema, which `migrate` creates. A change of a source of core makes a new template,
 * and so does a new week: the schema has a partition for each of the next weeks.
 */
export const makeMigrated = <E, R>(migrate: TestDatabaseOptions<E, R>["migrate"]) =>
  Effect.suspend(() => make({ fingerprint: `migrated_${coreFingerprint()}_${thisWeek()}`, migrate }))

/** The number of Mondays since 1970, in real time. */
// @effect-diagnostics-next-line globalDate:off -- the database's time, also in a test with another clock
const thisWeek = (): number => Math.floor((Date.now() / 86_400_000 + 3) / 7)

/** {@link make} with an empty database. */
export const makeEmpty = make({ fingerprint: "empty", migrate: () => Effect.void })

const core = new URL("../../core/src/", import.meta.url)
let hashOfCore: string | undefined

/** Computed once in a process: it reads all sources of core. */
const coreFingerprint = (): string =>
  hashOfCore ??= globSync("**/*.ts", { cwd: core }).toSorted()
    .reduce((hash, file) => hash.update(readFileSync(new URL(file, core))), createHash("sha256"))
    .digest("hex").slice(0, 16)

/** The address of the test run's server, as the superuser. */
export const serverUrl = (): Redacted.Redacted => Redacted.make(inject("postgresUrl"))

/** Templates that this process has seen: they stay as long as the test run's server. */
const known = new Set<string>()

const ensureTemplate = Effect.fnUntraced(function*<E, R>(
  adminUrl: Redacted.Redacted,
  options: TestDatabaseOptions<E, R>
): Effect.fn.Return<string, E | SqlError, R> {
  const template = `template_${options.fingerprint}`
  if (known.has(template)) return template
  const unfinished = `${template}_unfinished`
  yield* Effect.scoped(Effect.gen(function*() {
    const sql = yield* AdminSql.connect(adminUrl)
    if (yield* AdminSql.hasDatabase(sql, template)) return
    yield* Effect.gen(function*() {
      if (yield* AdminSql.hasDatabase(sql, template)) return
      yield* AdminSql.dropDatabase(sql, unfinished)
      yield* AdminSql.createDatabase(sql, unfinished)
      yield* options.migrate(AdminSql.withDatabase(adminUrl, unfinished))
      yield* sql`ALTER DATABASE ${sql(unfinished)} ALLOW_CONNECTIONS false`
      yield* sql`ALTER DATABASE ${sql(unfinished)} RENAME TO ${sql(template)}`
    }).pipe(AdminSql.exclusively(sql, template))
  }))
  known.add(template)
  return template
})
