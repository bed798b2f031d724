import * as Database from "@card-rewards/core/Database"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { makeEmpty } from "@card-rewards/dev-postgres/TestDatabase"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { TestClock } from "effect/testing"

const deadlineMillis = 1_000

const pool = (poolSize: number) =>
  Layer.unwrap(Effect.map(makeEmpty, (url) => Database.layer({ url, poolSize, applicationName: "test" })))

const sleep = (seconds: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT pg_sleep(${Database.value.int4(seconds)})`)

const session = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`
  return row?.pid
})

const behindNetwork = (poolSize: number) =>
  Layer.unwrap(Effect.gen(function*() {
    const url = yield* makeEmpty
    const { through } = yield* NetworkProxy
    return Database.layer({ url: through(url), poolSize, applicationName: "test" })
  })).pipe(Layer.provideMerge(NetworkProxy.layer))

/** Makes all open connections half-open; new ones work. */
const breakConnections = Effect.flatMap(NetworkProxy, ({ freeze, restore }) => Effect.andThen(freeze, restore))

it.effect("the steps of one request have one deadline together", () =>
  Effect.gen(function*() {
    const step = Database.withinRequestDeadline(Effect.never)
    const request = Database.withOneDeadline(Effect.andThen(Effect.sleep(3_000), step))
    const answered = yield* Effect.forkChild(Effect.flip(request))
    yield* TestClock.adjust(Database.unavailableAfterMillis - 1)
    assert.isUndefined(answered.pollUnsafe())
    yield* TestClock.adjust(1)
    assert.strictEqual((yield* Fiber.join(answered))._tag, "Unavailable")
  }))

it.effect("what earlier steps of a request have used of its deadline is not left", () =>
  Effect.gen(function*() {
    const request = Database.withOneDeadline(Effect.andThen(Effect.sleep(3_000), Database.millisLeft))
    const left = yield* Effect.forkChild(request)
    yield* TestClock.adjust(3_000)
    assert.strictEqual(yield* Fiber.join(left), Database.unavailableAfterMillis - 3_000)
    assert.strictEqual(yield* Database.millisLeft, Database.unavailableAfterMillis)
  }))

describe("a statement that exceeds its deadline", () => {
  it.live("does not close a connection on which another request's statement runs", () =>
    Effect.gen(function*() {
      const exceeded = Effect.flip(Database.withDeadline(4_000, sleep(20)))
      const slower = Database.withDeadline(10_000, sleep(6))
      const [error] = yield* Effect.all([exceeded, slower], { concurrency: 2 })
      assert.strictEqual(error._tag, "Unavailable")
    }).pipe(Effect.provide(pool(2))))

  it.live("leaves the other connections of its pool open where it is cancelled at once", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const held = sql.withTransaction(Effect.tap(session, () => sql`SELECT pg_sleep(0.3)`))
      const all = Effect.all([held, held, held], { concurrency: 3 })
      const before = new Set(yield* all)
      yield* Effect.flip(Database.withDeadline(deadlineMillis, sleep(20)))
      // longer than a cancellation may take
      yield* Effect.sleep(deadlineMillis)
      const kept = (yield* all).filter((pid) => before.has(pid))
      if (kept.length !== 2) return yield* Effect.fail(`${kept.length} of 3 are still open`)
    }).pipe(Effect.provide(pool(3)), Effect.retry({ times: 2 })))

  it.live("is the last one on its connection, even in a pool of one", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      type Work<A> = Effect.Effect<A, SqlError.SqlError | Unavailable, SqlClient.SqlClient>
      const alone = <A>(work: Work<A>) => work
      const withOwnDeadline = <A>(work: Work<A>): Work<A> => Database.withDeadline(4 * deadlineMillis, work)
      const transaction = <A>(work: Work<A>): Work<A> => sql.withTransaction(work)
      for (const inWhat of [alone, transaction, withOwnDeadline]) {
        const before = yield* session
        yield* Effect.flip(Database.withDeadline(deadlineMillis, inWhat(sleep(20))))
        // also where the machine takes long to open a session
        const after = yield* Database.withDeadline(10 * deadlineMillis, inWhat(session))
        assert.notStrictEqual(after, before)
      }
    }).pipe(Effect.provide(pool(1))))
})

it.live("a session that is read-only is replaced, so that it is not so for ever", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SET default_transaction_read_only = on`
    for (const create of [sql`CREATE TABLE one ()`, sql.withTransaction(sql`CREATE TABLE one ()`)]) {
      const write = Database.withDeadline(10 * deadlineMillis, create)
      assert.strictEqual((yield* Effect.flip(write))._tag, "Unavailable")
      yield* write
      yield* sql`DROP TABLE one`
      yield* sql`SET default_transaction_read_only = on`
    }
  }).pipe(Effect.provide(pool(1))))

it.effect("a connection that is refused is no defect", () =>
  Effect.gen(function*() {
    const cause = Object.assign(new Error("database is not currently accepting connections"), { code: "55000" })
    const reason = new SqlError.AuthenticationError({ cause, operation: "connect" })
    const error = yield* Effect.flip(Database.withDeadline(deadlineMillis, new SqlError.SqlError({ reason })))
    assert.strictEqual(error._tag, "Unavailable")
  }))

it.live("connections of a slow database are used, also after an exceeded deadline", () =>
  Effect.gen(function*() {
    yield* Effect.flip(Database.withDeadline(deadlineMillis, sleep(20)))
    yield* (yield* NetworkProxy).delay(400)
    yield* Database.withDeadline(20 * deadlineMillis, session)
  }).pipe(Effect.provide(behindNetwork(2))))

/** The best of three: a machine that stalls takes longer than a deadline to open connections. */
describe("half-open connections of a pool", () => {
  it.live("cost less than a deadline if the pool had opened them before their first use", () =>
    Effect.gen(function*() {
      // the pool replaces the connection of the exceeded statement at once
      yield* Effect.flip(Database.withDeadline(deadlineMillis, sleep(20)))
      yield* Effect.sleep(500)
      yield* breakConnections
      const sql = yield* SqlClient.SqlClient
      yield* Database.withDeadline(deadlineMillis, session)
      yield* Database.withDeadline(deadlineMillis, sql.withTransaction(session))
    }).pipe(Effect.provide(behindNetwork(2)), Effect.retry({ times: 2 })))

  it.live("cost one deadline together, not one each", () =>
    Effect.gen(function*() {
      const all = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        Effect.all(Array.from({ length: 4 }, () => effect), { concurrency: 4 })
      const before = new Set(yield* all(Effect.tap(session, () => sleep(0))))
      yield* all(sleep(1))
      yield* breakConnections
      yield* Effect.flip(Database.withDeadline(deadlineMillis, session))
      const [took, after] = yield* Effect.timed(all(Database.withDeadline(deadlineMillis, session)))
      if (Duration.toMillis(took) >= deadlineMillis) return yield* Effect.fail("more than one deadline")
      for (const pid of after) assert.isFalse(before.has(pid), "a new session")
    }).pipe(Effect.provide(behindNetwork(4)), Effect.retry({ times: 2 })))
})
