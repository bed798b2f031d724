import { makeEmpty, makeMigrated } from "@card-rewards/dev-postgres/TestDatabase"
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { underRole } from "../src/AwaitSchema.ts"
import * as Database from "../src/Database.ts"
import { toUnavailable } from "../src/Database/Errors.ts"
import * as Roles from "../src/Roles.ts"
import { liveLayer } from "./TestLayer.ts"

/** Runs as another login or role over the same test server. */
const over = (config: Partial<Database.DatabaseConfig> & { readonly url: Redacted.Redacted }) =>
  Database.layer({ poolSize: 1, applicationName: "roles test", ...config })

const login = (url: Redacted.Redacted, name: string, password: string) => {
  const other = new URL(Redacted.value(url))
  other.username = name
  other.password = password
  return Redacted.make(other.href)
}

const attempt = (url: Redacted.Redacted, role: Roles.Role, statement: string) =>
  Effect.exit(Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(statement))).pipe(
    Effect.provide(over({ url, role }))
  )

layer(liveLayer, { excludeTestServices: true })("roles with few privileges", (it) => {
  it.effect("no role can alter a table or rewrite the journal, the events, stored spend events or programs", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const kept = ["journal", "journal_seals", "vault_days", "events", "vault_operations", "program_versions",
        "user_attributes", "delivery_attempts", "operator_actions"]
      const rights = yield* sql<{ role: string; table: string; privilege: string }>`
        SELECT r.rolname AS role, c.relname AS table, p.privilege
        FROM pg_class c CROSS JOIN pg_roles r CROSS JOIN unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) p (privilege)
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
          AND r.rolname = ANY(${Database.columns.text(Roles.roles.map(Roles.nameOf))})
          AND (CASE p.privilege WHEN 'UPDATE' THEN has_any_column_privilege(r.oid, c.oid, 'UPDATE')
            ELSE has_table_privilege(r.oid, c.oid, p.privilege) END)`
      assert.deepStrictEqual(rights.filter(({ table }) => kept.includes(table)), [])
      assert.deepStrictEqual(rights.filter(({ privilege }) => privilege === "TRUNCATE"), [])
      const deletes = rights.filter(({ privilege }) => privilege === "DELETE").map(
        ({ role, table }) => `${role} ${table}`
      )
      assert.deepStrictEqual(deletes.sort(), [
        "card_rewards_admin payouts",
        "card_rewards_admin replays",
        "card_rewards_admin waiting_sums",
        "card_rewards_api payouts",
        "card_rewards_api replays",
        "card_rewards_api waiting_sums",
        "card_rewards_api webhook_secrets",
        "card_rewards_worker open_estimates",
        "card_rewards_worker payouts",
        "card_rewards_worker quarantine",
        "card_rewards_worker replays",
        "card_rewards_worker retries",
        "card_rewards_worker spend_event_queue",
        "card_rewards_worker spend_event_waits",
        "card_rewards_worker waiting_sums",
        "card_rewards_worker webhook_endpoints"
      ])
      const owned = yield* sql`SELECT FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
        WHERE r.rolname LIKE 'card\\_rewards\\_%'`
      assert.strictEqual(owned.length, 0)
      const strong = yield* sql`SELECT FROM pg_roles WHERE rolname LIKE 'card\\_rewards\\_%'
        AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls OR rolcanlogin)`
      assert.strictEqual(strong.length, 0)
    }))

  it.effect("a worker sees the age of other sessions' snapshots, and nothing of their statements", () =>
    Effect.gen(function*() {
      const url = yield* makeMigrated(Database.migrate)
      const sql = yield* SqlClient.SqlClient
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`
        const [own] = yield* sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`
        const [shown] = yield* Effect.flatMap(SqlClient.SqlClient, (worker) =>
          worker<{ query: string; age: number }>`SELECT query, age(backend_xmin) AS age FROM pg_stat_activity
            WHERE pid = ${Database.value.int4(own?.pid ?? 0)}`).pipe(Effect.provide(over({ url, role: "worker" })))
        assert.strictEqual(shown?.query, "<insufficient privilege>")
        assert.isAtLeast(shown?.age ?? -1, 0)
      }))
    }))

  it.effect("each role is refused to change, delete or truncate the journal and its seals", () =>
    Effect.gen(function*() {
      const url = yield* makeMigrated(Database.migrate)
      for (const role of Roles.roles) {
        for (const [table, set] of [["journal", "amount = 1"], ["journal_seals", "seal = 1"]]) {
          for (const statement of [`UPDATE ${table} SET ${set}`, `DELETE FROM ${table}`, `TRUNCATE ${table}`]) {
            const exit = yield* attempt(url, role, statement)
            assert.isTrue(Exit.isFailure(exit), `${role}: ${statement}`)
            assert.include(String(exit), `permission denied for table ${table}`, `${role}: ${statement}`)
          }
        }
      }
    }))

  it.effect("each role is refused the statements of the others", () =>
    Effect.gen(function*() {
      const url = yield* makeMigrated(Database.migrate)
      const refused = [
        ["worker", "SELECT * FROM api_keys"],
        ["worker", "SELECT * FROM api_key_hashes"],
        ["worker", "INSERT INTO vault_operations (integrator_id) VALUES ('x')"],
        ["api", "INSERT INTO journal_seals (integrator_id) VALUES ('x')"],
        ["admin", "INSERT INTO journal_seals (integrator_id) VALUES ('x')"],
        ["worker", "UPDATE integrators SET clock_offset_millis = 0"],
        ["worker", "DELETE FROM rewards"],
        ["api", "SELECT * FROM quarantine"],
        ["admin", "DELETE FROM quarantine"],
        ["worker", "UPDATE rewards SET earned = 1"],
        ["api", "UPDATE integrators SET suspended_at = NULL"],
        ["api", "UPDATE users SET referred_by = NULL"],
        ["api", "INSERT INTO integrators (integrator_id) VALUES ('x')"],
        ["api", "UPDATE spend_events SET cents = 1"],
        ["api", "DELETE FROM spend_events"],
        ["api", "INSERT INTO delivery_attempts (integrator_id) VALUES ('x')"],
        ["admin", "UPDATE rewards SET earned = 1"],
        ["admin", "DELETE FROM webhook_secrets"],
        ["admin", "UPDATE events SET body = ''"],
        ["admin", "CREATE TABLE mine (x int)"],
        ["admin", "UPDATE operator_actions SET outcome = 'done'"],
        ["admin", "DELETE FROM operator_actions"],
        ["admin", "TRUNCATE operator_actions"],
        ["admin", "INSERT INTO operator_actions (login) VALUES ('another')"],
        ["admin", "INSERT INTO operator_actions (at) VALUES ('2020-01-01')"],
        // which would hide its operations from the audit
        ["api", "UPDATE vaults SET vault_id = 'sandbox'"],
        ["api", "SELECT * FROM operator_actions"],
        ["worker", "SELECT * FROM operator_actions"]
      ] as const
      for (const [role, statement] of refused) {
        const exit = yield* attempt(url, role, statement)
        assert.isTrue(Exit.isFailure(exit), `${role}: ${statement}`)
        assert.match(String(exit), /permission denied|must be owner/i, `${role}: ${statement}`)
      }
    }))

  it.effect("a migration takes back what a role was granted beside its own rights", () =>
    Effect.gen(function*() {
      const url = yield* makeMigrated(Database.migrate)
      yield* Effect.flatMap(SqlClient.SqlClient, (sql) =>
        Effect.andThen(
          sql`GRANT DELETE ON journal TO card_rewards_api`,
          sql`GRANT UPDATE (referred_by) ON users TO card_rewards_api`
        )).pipe(Effect.provide(over({ url })))
      yield* Database.migrate(url)
      for (const statement of ["DELETE FROM journal", "UPDATE users SET referred_by = NULL"]) {
        assert.include(String(yield* attempt(url, "api", statement)), "permission denied", statement)
      }
      assert.isTrue(Exit.isSuccess(yield* attempt(url, "api", "SELECT FROM effect_sql_migrations")))
    }))

  it.effect("a login that is a member of a role uses it; another login keeps its own privileges", () =>
    Effect.gen(function*() {
      const url = yield* makeMigrated(Database.migrate)
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE ROLE roles_test_member LOGIN PASSWORD 'secret' IN ROLE card_rewards_worker`
      yield* sql`CREATE ROLE roles_test_stranger LOGIN PASSWORD 'secret'`
      yield* sql`CREATE ROLE roles_test_keeper LOGIN PASSWORD 'secret'`
      yield* Effect.addFinalizer(() =>
        Effect.orDie(sql`DROP ROLE roles_test_member, roles_test_stranger, roles_test_keeper`))
      const take = (name: string, role: Roles.Role) => {
        const config = { url: login(url, name, "secret"), poolSize: 1, applicationName: "roles test" }
        return Effect.provide(underRole(config, role), Database.layer(config))
      }
      const member = yield* take("roles_test_member", "worker")
      const [now] = yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql<{ name: string }>`
        SELECT current_user AS name`).pipe(Effect.provide(Database.layer(member)))
      assert.strictEqual(now?.name, "card_rewards_worker")
      yield* Effect.gen(function*() {
        const pool = yield* SqlClient.SqlClient
        yield* pool.reserve
        yield* sql`REVOKE card_rewards_worker FROM roles_test_member`
        const refused = yield* Effect.flip(Effect.catchTag(pool`SELECT 1`, "SqlError", toUnavailable))
        assert.strictEqual(refused._tag, "Unavailable", "as for a password that is not valid any more")
        yield* sql`GRANT card_rewards_worker TO roles_test_member`
        assert.lengthOf(yield* pool`SELECT 1`, 1)
      }).pipe(Effect.scoped, Effect.provide(Layer.fresh(Database.layer({ ...member, poolSize: 2 }))))
      assert.isFalse("role" in (yield* take("roles_test_member", "api")))
      assert.isFalse("role" in (yield* take("roles_test_stranger", "worker")))
      // as a login of PostgreSQL 16 and newer is that has created the role
      const [server] = yield* sql<{ version: number }>`SELECT current_setting('server_version_num')::int AS version`
      if ((server?.version ?? 0) < 160_000) return
      yield* sql`GRANT card_rewards_worker TO roles_test_keeper WITH ADMIN TRUE, INHERIT FALSE, SET FALSE`
      assert.isFalse("role" in (yield* take("roles_test_keeper", "worker")))
    }))

  it.effect("a login that may create no tables is told so", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const url = yield* makeEmpty
      // as PostgreSQL 15 and newer have it
      yield* Effect.provide(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`REVOKE CREATE ON SCHEMA public FROM public`),
        over({ url })
      )
      yield* sql`CREATE ROLE roles_test_guest LOGIN PASSWORD 'secret'`
      yield* Effect.addFinalizer(() => Effect.orDie(sql`DROP ROLE roles_test_guest`))
      const { message } = yield* Effect.flip(Database.migrate(login(url, "roles_test_guest", "secret")))
      assert.strictEqual(message, "The login may create no tables: it must own the database or its schema")
    }))

  it.effect("an owner that cannot create roles can migrate, and repeat that", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const url = yield* makeEmpty
      const database = new URL(Redacted.value(url)).pathname.slice(1)
      yield* sql`CREATE ROLE roles_test_owner LOGIN PASSWORD 'secret'`
      yield* sql`ALTER DATABASE ${sql(database)} OWNER TO roles_test_owner`
      yield* Effect.addFinalizer(() =>
        Effect.orDie(Effect.gen(function*() {
          yield* sql`ALTER DATABASE ${sql(database)} OWNER TO CURRENT_USER`
          yield* Effect.provide(
            Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP OWNED BY roles_test_owner CASCADE`),
            over({ url })
          )
          yield* sql`DROP ROLE roles_test_owner`
        }))
      )
      const owner = login(url, "roles_test_owner", "secret")
      yield* Database.migrate(owner)
      yield* Database.migrate(owner)
      const [made] = yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql<{ name: string }>`
        SELECT tableowner AS name FROM pg_tables WHERE tablename = 'journal'`).pipe(Effect.provide(over({ url })))
      assert.strictEqual(made?.name, "roles_test_owner")
      // it could grant itself the right, which is not done by mistake; see docs/security.md
      for (const statement of ["UPDATE operator_actions SET outcome = 'done'", "DELETE FROM operator_actions"]) {
        const exit = yield* Effect.exit(Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(statement))).pipe(
          Effect.provide(over({ url: owner }))
        )
        assert.match(String(exit), /permission denied for table operator_actions/, statement)
      }
    }))
})
