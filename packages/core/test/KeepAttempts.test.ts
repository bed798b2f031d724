import * as Database from "@card-rewards/core/Database"
import { keepAttempts as keep } from "@card-rewards/core/Deliveries/Purge"
import { makeMigrated } from "@card-rewards/dev-postgres/TestDatabase"
import { assert, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"

const partitions = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ name: string }>`SELECT inhrelid::regclass::text AS name FROM pg_inherits
    WHERE inhparent = 'delivery_attempts'::regclass ORDER BY 1`
  return rows.map(({ name }) => name)
})

/** The names of the partitions of this week, of the next one and so on, or of earlier weeks. */
const weeks = Effect.fnUntraced(function*(from: number, to: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ name: string }>`
    SELECT 'delivery_attempts_' || to_char(now() + n * interval '7 days', 'IYYY"w"IW') AS name
    FROM generate_series(${Database.value.int4(from)}, ${Database.value.int4(to)}) n ORDER BY n`
  return rows.map(({ name }) => name)
})

const attempt = Effect.fnUntraced(function*(event: number, at: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ name: string }>`INSERT INTO delivery_attempts
      (integrator_id, event, round, attempt, at, duration_millis, status)
    VALUES ('acme', ${Database.value.int4(event)}, 1, 1, now() + ${at}::interval, 1, 200)
    RETURNING tableoid::regclass::text AS name`
  return row?.name
})


const onDatabase = <A, E>(effect: Effect.Effect<A, E, SqlClient.SqlClient>) =>
  Effect.flatMap(makeMigrated(Database.migrate), (url) =>
    Effect.provide(effect, Database.layer({ url, poolSize: 3, applicationName: "test", role: "worker" })))

it.live("the partitions of the coming weeks are there, and old ones go with what they hold", () =>
  onDatabase(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const [current = "", next = "", last = ""] = yield* weeks(0, 2)
    assert.deepStrictEqual(yield* partitions, [current, next, last, "delivery_attempts_other"].sort())
    assert.strictEqual(yield* attempt(1, "0 seconds"), current)
    assert.strictEqual(yield* attempt(2, "7 days"), next)
    // what fits none is kept all the same: a clock was wrong
    assert.strictEqual(yield* attempt(3, "400 days"), "delivery_attempts_other")
    assert.strictEqual(yield* attempt(4, "-100 days"), "delivery_attempts_other")
    assert.strictEqual(yield* attempt(5, "-60 days"), "delivery_attempts_other")
    yield* keep(90)
    const events = yield* sql<{ event: bigint }>`SELECT event FROM delivery_attempts ORDER BY event`
    assert.deepStrictEqual(events.map(({ event }) => event), [1n, 2n, 3n, 5n])
    assert.lengthOf(yield* partitions, 4)
  })).pipe(Effect.scoped))

it.live("a week's partition goes when all of it is older than the retention", () =>
  Effect.gen(function*() {
    const url = yield* makeMigrated(Database.migrate)
    const at = (role?: "worker") =>
      Database.layer({ url, poolSize: 2, applicationName: "test", ...(role === undefined ? {} : { role }) })
    const [old = "", older = ""] = yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const names = yield* weeks(-5, -4)
      for (const [index, name] of names.entries()) {
        const from = sql.literal(`date_trunc('week', now()) - interval '${(5 - index) * 7} days'`)
        yield* sql`SELECT set_config('test.from', (${from})::text, false), set_config('test.to',
          (${from} + interval '7 days')::text, false)`
        yield* sql.unsafe(`DO $$ BEGIN EXECUTE format('CREATE TABLE ${name} PARTITION OF delivery_attempts
          FOR VALUES FROM (%L) TO (%L)', current_setting('test.from'), current_setting('test.to')); END $$`)
      }
      return names
    }).pipe(Effect.provide(at()))
    yield* Effect.gen(function*() {
      yield* keep(35)
      assert.include(yield* partitions, old)
      yield* keep(28)
      assert.notInclude(yield* partitions, old)
      assert.include(yield* partitions, older)
    }).pipe(Effect.provide(at("worker")))
  }).pipe(Effect.scoped))

it.live("nothing queues up behind a partition that cannot be created, and a worker has no other right", () =>
  Effect.gen(function*() {
    const url = yield* makeMigrated(Database.migrate)
    const owner = Database.layer({ url, poolSize: 2, applicationName: "test" })
    const worker = Database.layer({ url, poolSize: 3, applicationName: "test", role: "worker" })
    yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [last = ""] = yield* weeks(2, 2)
      yield* sql`DROP TABLE ${sql(last)}`
    }).pipe(Effect.provide(owner))
    yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      assert.include(String(yield* Effect.exit(sql`DROP TABLE delivery_attempts_other`)), "must be owner")
      // a long report holds a lock that the new partition needs
      const holds = yield* Deferred.make<void>()
      const enough = yield* Deferred.make<void>()
      const reading = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`SELECT FROM delivery_attempts`
        yield* Deferred.succeed(holds, undefined)
        yield* Deferred.await(enough)
      })))
      yield* Deferred.await(holds)
      const keeping = yield* Effect.forkChild(Effect.exit(keep(90)))
      const [took] = yield* Effect.timed(attempt(1, "0 seconds"))
      assert.isBelow(Duration.toMillis(took), 1_000)
      assert.include(String(yield* Fiber.join(keeping)), "lock timeout")
      yield* Deferred.succeed(enough, undefined)
      yield* Fiber.join(reading)
      yield* keep(90)
      assert.lengthOf(yield* partitions, 4)
    }).pipe(Effect.provide(worker))
  }).pipe(Effect.scoped))

it.live("new partitions are created also where an old one cannot be dropped", () =>
  Effect.gen(function*() {
    const url = yield* makeMigrated(Database.migrate)
    yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [old = "", last = ""] = [...(yield* weeks(-20, -20)), ...(yield* weeks(2, 2))]
      yield* sql`SELECT create_attempts_partition(date_trunc('week', now()) - interval '140 days')`
      yield* sql`DROP TABLE ${sql(last)}`
      // a report reads the old one
      const dropping = Effect.provide(keep(90), Database.layer({ url, poolSize: 1, applicationName: "worker" }))
      const exit = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`SELECT FROM ${sql(old)}`
        return yield* Effect.exit(dropping)
      }))
      assert.include(String(exit), "lock timeout")
      assert.includeMembers([...(yield* partitions)], [old, last])
      yield* keep(90)
      assert.notInclude(yield* partitions, old)
    }).pipe(Effect.provide(Database.layer({ url, poolSize: 1, applicationName: "test" })))
  }).pipe(Effect.scoped))
