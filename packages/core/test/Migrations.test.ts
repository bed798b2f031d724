import { Audit } from "@card-rewards/core/Audit"
import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { Journal } from "@card-rewards/core/Journal"
import { JournalSeals } from "@card-rewards/core/JournalSeals"
import { insertAction } from "@card-rewards/core/OperatorActions/RecordAction"
import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import * as Rows from "@card-rewards/dev-postgres/Rows"
import { makeEmpty } from "@card-rewards/dev-postgres/TestDatabase"
import { EndpointId, IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { dayMillis, instant } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { waitingFor } from "@card-rewards/testing/TableLocks"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer, type Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { verifyChain } from "./SealChain.ts"
import { moneyServices } from "./Spending.ts"
import { liveLayer } from "./TestLayer.ts"
import { randomUUID } from "node:crypto"

const at = (url: Redacted.Redacted) => Database.layer({ url, poolSize: 1, applicationName: "test" })

const applied = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ id: number }>`SELECT migration_id AS id FROM effect_sql_migrations ORDER BY 1`
  return rows.map(({ id }) => id)
})

const all = Array.from({ length: Database.schemaVersion }, (_, index) => index + 1)

/** The first release's migration, and an additive second one, as later migrations are. */
const first = { "0001_initial": Database.migrations["0001_initial"] }
const second = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE retries ADD COLUMN priority integer NOT NULL DEFAULT 0`
  yield* sql`ALTER TABLE retries ADD CONSTRAINT retries_priority_check CHECK (priority >= 0) NOT VALID`
  yield* sql`ALTER TABLE retries VALIDATE CONSTRAINT retries_priority_check`
  yield* sql`CREATE INDEX retries_by_priority ON retries (integrator_id, priority, event)`
  yield* sql`CREATE TABLE priorities (integrator_id text, event bigint, PRIMARY KEY (integrator_id, event))`
  yield* sql`INSERT INTO priorities SELECT DISTINCT integrator_id, event FROM retries`
})
const migrations = { ...first, "0002_second": second }
const migrate = (url: Redacted.Redacted, lockTries?: number) =>
  Database.migrate(url, { migrations, ...(lockTries === undefined ? {} : { lockTries }) })

/** The whole schema: columns, indexes, constraints and triggers. */
const schema = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ line: string }>`
    SELECT concat_ws(' ', c.relname, a.attnum::text, a.attname, format_type(a.atttypid, a.atttypmod),
      a.attnotnull::text, pg_get_expr(d.adbin, d.adrelid)) AS line
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT concat_ws(' ', conrelid::regclass::text, conname, pg_get_constraintdef(oid)) FROM pg_constraint
      WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    ORDER BY 1`
  return rows.map(({ line }) => line)
})

const services = Layer.merge(Deliveries.layer, DeliveryLog.layer).pipe(
  Layer.provideMerge(Layer.merge(moneyServices, WebhookEndpoints.layer({ allowPrivateNetwork: true })))
)

const integratorId = IntegratorId.make("acme")
const ann = UserId.make("ann")
const usdc = (reference: string, amount: bigint) => ({
  reference: Reference.make(reference),
  amount: { asset: "USDC" as const, amount }
})

const send = Effect.fnUntraced(function*(kind: string, externalTransactionId: string, more: object = {}) {
  const { now } = yield* (yield* SandboxClock).get(integratorId)
  yield* (yield* SpendEvents).submit(spendEvent(integratorId, ann, now, { kind, externalTransactionId, ...more }))
})

/**
 * Rows in every table: two days of a vault, rewards that wait, are paid in part, claimable and refunded, none at all,
 * an open authorization, a waiting refund, events with and without attempts, a retry, and two queued events.
 */
const history = Effect.gen(function*() {
  const vault = yield* Vault
  const endpoints = yield* WebhookEndpoints
  const id = EndpointId.make("hook")
  const url = "http://127.0.0.1:9/"
  const action = { actionId: randomUUID(), osUser: "root", host: "host", command: "integrator create", arguments: {} }
  yield* (yield* Integrators).create(integratorId, (outcome) => insertAction(action, outcome))
  yield* endpoints.create(integratorId, { id, url })
  yield* (yield* Users).put(integratorId, ann, { tier: "gold" })
  const start = yield* Clock.currentTimeMillis
  const { publish } = yield* Programs
  yield* publish(integratorId, ProgramId.make("base"), 1, definition(start + 400_000, { holdingPeriodDays: 0 }), [])
  yield* publish(integratorId, ProgramId.make("later"), 1, definition(start + 100 * dayMillis), [])
  yield* (yield* SandboxClock).set(integratorId, instant(start + 500_000))
  yield* vault.deposit(integratorId, usdc("d1", 2_500_000n))
  yield* send("authorization", "a1")
  for (const one of ["c1", "c2", "c3"]) yield* send("clearing", one)
  yield* processAll
  yield* (yield* SandboxClock).set(integratorId, instant(start + 500_000 + dayMillis))
  yield* vault.claim(integratorId, { ...usdc("p1", 1_500_000n), userId: ann })
  yield* send("refund", "r1", { originalTransactionId: "c1", amount: usd(2_500) })
  yield* send("refund", "r2", { originalTransactionId: "unknown" })
  yield* processAll
  yield* send("clearing", "c4")
  yield* send("refund", "r3", { originalTransactionId: "c2" })
  const { lease, record } = yield* Deliveries
  const now = yield* Clock.currentTimeMillis
  const [leased] = yield* lease({ worker: "test", now, until: now + 30_000, limit: 1 })
  if (leased === undefined) return yield* Effect.die(new Error("the endpoint has no work"))
  const attempt = { round: 1, attempt: 1, startedAt: now, durationMillis: 5 }
  const recorded = { ...leased, cursor: 2n, revision: 1, isRepeated: false }
  yield* record([{
    ...recorded,
    attempts: [
      { ...attempt, event: 1n, result: { status: 200, answer: "" } },
      { ...attempt, event: 2n, result: { error: "reset" } }
    ],
    retries: [{
      event: 2n,
      round: 1,
      reward: null,
      state: "open",
      attempts: 1,
      nextAttemptAt: now + 60_000,
      createdAt: now,
      traceparent: null
    }]
  }], now)
  yield* (yield* DeliveryLog).startReplay(integratorId, id, { from: instant(0) })
  yield* Effect.repeat((yield* JournalSeals).sealNext, { while: (more) => more })
})

/** Tables whose rows are deleted once their work is done, as all work of the history is. */
const passing = ["payouts", "quarantine"]

/** An idle database of the first version of the schema, without any row. */
const firstSchema = Effect.gen(function*() {
  const url = yield* makeEmpty
  yield* Database.migrate(url, { migrations: first, slots: new Set() })
  return url
})

/** A database with that history, to which only migration 1 has been applied. */
const oldDatabase = Effect.gen(function*() {
  const source = yield* SqlClient.SqlClient
  const url = yield* firstSchema
  const filled = yield* Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { contents, tables } = yield* Rows.copy(source, sql)
    const empty = contents.flatMap(({ name, rows }) => rows === "[]" ? [name] : [])
    assert.deepStrictEqual(empty, passing, "the history has rows in every other table")
    assert.deepStrictEqual(yield* Rows.read(sql, tables), contents)
    assert.deepStrictEqual(yield* applied, [1])
    return { tables, history: contents }
  }).pipe(Effect.provide(at(url)))
  return { url, ...filled }
})

/** The rows of all tables. */
const contents = (tables: ReadonlyArray<Rows.Table>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => Rows.read(sql, tables))

const audited = Effect.gen(function*() {
  assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
})

/** Runs while a transaction of another session reads the table, as a long report does. */
const whileRead = <A, E, R>(table: string, effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(Effect.gen(function*() {
      yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
      yield* sql`SELECT FROM ${sql(table)} LIMIT 1`
      return yield* effect
    })))

describe("migrations beside a long-running transaction", () => {
  it.live("block no request beyond its deadline, and continue once the transaction ends", () =>
    Effect.gen(function*() {
      const url = yield* firstSchema
      const ask = Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const at = performance.now()
        yield* sql`SELECT FROM retries LIMIT 1`
        return performance.now() - at
      }).pipe(Effect.provide(at(url)))
      // a request that waited for the migration; where the machine stalled meanwhile, another request
      const waits: Array<number> = []
      const migrating = yield* Effect.gen(function*() {
        const migrating = yield* Effect.forkChild(migrate(url))
        const isBlocked = waitingFor("retries")
        while (waits.length < 3 && !waits.some((millis) => millis < Database.unavailableAfterMillis)) {
          yield* Effect.repeat(isBlocked, { until: (rows) => rows.length > 0, schedule: Schedule.spaced(10) })
          const millis = yield* ask
          if (millis > 1_000) waits.push(millis)
        }
        return migrating
      }).pipe((held) => whileRead("retries", held), Effect.provide(at(url)))
      yield* Fiber.join(migrating)
      assert.isBelow(Math.min(...waits), Database.unavailableAfterMillis)
      assert.deepStrictEqual(yield* Effect.provide(applied, at(url)), [1, 2])
    }).pipe(Effect.scoped))

  it.live("fail with one line where it does not end, and leave the database unchanged", () =>
    Effect.gen(function*() {
      const url = yield* firstSchema
      const before = yield* Effect.provide(schema, at(url))
      const refused = yield* whileRead("retries", Effect.flip(migrate(url, 1))).pipe(
        Effect.provide(at(url))
      )
      assert.match(refused.message, /^Other transactions hold tables/)
      assert.deepStrictEqual(yield* Effect.provide(schema, at(url)), before)
      assert.deepStrictEqual(yield* Effect.provide(applied, at(url)), [1])
    }).pipe(Effect.scoped))
})

describe("migrations of an empty database", () => {
  it.live("run once, however many start at the same moment, without a statement timeout", () =>
    Effect.gen(function*() {
      const url = yield* makeEmpty
      // an index over a large table takes longer than the deadline of a request
      const limits = Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE SCHEMA watch`
        yield* sql`CREATE TABLE watch.limits (statement_timeout text)`
        yield* sql`CREATE FUNCTION watch.note() RETURNS event_trigger LANGUAGE plpgsql AS
          $$ BEGIN INSERT INTO watch.limits VALUES (current_setting('statement_timeout')); END $$`
        yield* sql`CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION watch.note()`
      })
      yield* Effect.provide(limits, at(url))
      yield* Effect.all([1, 2, 3].map(() => Database.migrate(url)), { concurrency: 3 })
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* applied, all)
        const limits = yield* sql`SELECT DISTINCT statement_timeout FROM watch.limits`
        assert.deepStrictEqual(limits, [{ statementTimeout: "0" }])
      }).pipe(Effect.provide(at(url)))
    }).pipe(Effect.scoped))
})

layer(Layer.provideMerge(services, liveLayer), { excludeTestServices: true })("migrations of an old database", (it) => {
  it.effect("change nothing where one fails; two at once bring every row up to date, and work continues", () =>
    Effect.gen(function*() {
      yield* history
      const fresh = yield* Effect.flatMap(makeEmpty, (url) =>
        Effect.andThen(migrate(url), Effect.provide(schema, at(url))))
      const { history: before, tables, url } = yield* oldDatabase
      const old = Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        // an object has the name of one that the migration's last statements create
        yield* sql`CREATE TABLE priorities (not_ours text)`
        const untouched = yield* schema
        const { message } = yield* Effect.flip(migrate(url))
        assert.strictEqual(message, 'Migration "2_second" failed: relation "priorities" already exists (42P07)')
        assert.deepStrictEqual(yield* schema, untouched)
        assert.deepStrictEqual(yield* applied, [1])
        assert.deepStrictEqual(yield* contents(tables), before)
        yield* sql`DROP TABLE priorities`
      })
      yield* Effect.provide(old, at(url))

      yield* Effect.all([migrate(url), migrate(url)], { concurrency: 2 })

      yield* Effect.gen(function*() {
        assert.deepStrictEqual(yield* applied, [1, 2])
        assert.deepStrictEqual(yield* schema, fresh)
        assert.deepStrictEqual(yield* contents(tables), before)
        yield* audited
        yield* processAll
        yield* (yield* Vault).deposit(integratorId, usdc("d2", 10_000_000n))
        // 0.75 and 0 are left of the two paid rewards; the overpaid amounts are recovered from the other two
        const { balances } = yield* (yield* Rewards).balance(integratorId, ann)
        assert.deepStrictEqual(balances[0], {
          asset: "USDC",
          expected: "1000000",
          pending: "0",
          claimable: "1250000",
          paid: "1500000",
          owed: "0",
          awaitingFunding: "0"
        })
        yield* audited
        // the seals go on from those that were copied
        const { entries, seals } = yield* Effect.provide(verifyChain(integratorId), Journal.layer)
        assert.deepStrictEqual([seals.length, seals.at(-1)?.toEntry], [2, BigInt(entries.length)])
        // services of their own, over another database
      }).pipe(Effect.provide(Layer.provideMerge(services, at(url)), { local: true }))
    }).pipe(Effect.scoped))
})
