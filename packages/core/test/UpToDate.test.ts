import * as Database from "@card-rewards/core/Database"
import { Integrators } from "@card-rewards/core/Integrators"
import * as Ledger from "@card-rewards/core/Ledger"
import { lockVault } from "@card-rewards/core/Locks"
import { Rewards } from "@card-rewards/core/Rewards"
import { type Due, dueOf, nowOf, UpToDate } from "@card-rewards/core/UpToDate"
import { type IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { until } from "@card-rewards/testing/Polling"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { addOwed, addRewards } from "./BulkRewards.ts"
import { liveMoneyLayer } from "./Spending.ts"
import { newIntegratorId } from "./TestLayer.ts"

/** More than the pool has connections. */
const users = 40

/** An integrator whose users, one reward each, have rewards in this state, which are due. */
const setUp = Effect.fnUntraced(function*(state: "Pending" | "AwaitingFunding") {
  const integratorId = newIntegratorId("up-to-date")
  yield* (yield* Integrators).create(integratorId)
  const claimableAt = yield* Clock.currentTimeMillis
  yield* addRewards(integratorId, { prefix: "user", users, count: users, state, claimableAt })
  return integratorId
})

const claimableOf = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: string) {
  const { balances } = yield* (yield* Rewards).balance(integratorId, UserId.make(userId))
  return balances[0]?.claimable
})

/** Reads all users at once. */
const readEach = (integratorId: IntegratorId) =>
  Effect.forEach(Array.from({ length: users }, (_, index) => `user${index + 1}`), (userId) =>
    Effect.exit(claimableOf(integratorId, userId)), { concurrency: "unbounded" })

/** As {@link readEach}, where each must succeed. */
const readAll = (integratorId: IntegratorId) =>
  Effect.flatMap(readEach(integratorId), (exits) => Effect.all(exits))

/** The vault is locked by another session until `release`. */
const lock = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const isLocked = yield* Deferred.make<void>()
  const end = yield* Deferred.make<void>()
  const locking = Effect.andThen(lockVault(integratorId), Deferred.succeed(isLocked, undefined))
  const session = yield* Effect.forkChild(sql.withTransaction(Effect.andThen(locking, Deferred.await(end))))
  yield* Deferred.await(isLocked)
  return Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(session))
})

/** Sessions that wait for a lock. */
const waiting = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
})

/** Transactions that have moved money of the vault. */
const transactions = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`SELECT DISTINCT xmin::text FROM journal WHERE integrator_id = ${integratorId}`
})

/** In the order of the numbers that PostgreSQL gave to them. */
const numbersOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ xid: number }>`SELECT DISTINCT xmin::text::int4 AS xid FROM journal
    WHERE integrator_id = ${integratorId} ORDER BY xid`
  return rows.map(({ xid }) => xid)
})

/** An integrator with three users, `many1` to `many3`, each of whom has 400 due rewards. */
const setUpMany = Effect.gen(function*() {
  const integratorId = newIntegratorId("many")
  yield* (yield* Integrators).create(integratorId)
  const claimableAt = yield* Clock.currentTimeMillis
  yield* addRewards(integratorId, { prefix: "many", users: 3, count: 1_200, state: "Pending", claimableAt })
  return integratorId
})

const readMany = (integratorId: IntegratorId) =>
  Effect.forEach(["many1", "many2", "many3"], (userId) => claimableOf(integratorId, userId), { concurrency: 3 })

/** Locks a vault: its users' reads wait for it with one connection, and are answered after those of another one. */
const assertOneWaits = Effect.fnUntraced(function*(locked: IntegratorId, other: IntegratorId) {
  const release = yield* lock(locked)
  const reads = yield* Effect.forkChild(readAll(locked))
  yield* until("a session that waits for the vault", waiting, ({ length }) => length > 0)
  assert.deepStrictEqual(new Set(yield* readAll(other)), new Set(["1"]))
  assert.lengthOf(yield* waiting, 1)
  yield* release
  assert.deepStrictEqual(new Set(yield* Fiber.join(reads)), new Set(["1"]))
})

layer(liveMoneyLayer, { excludeTestServices: true })("reads of users with due rewards", (it) => {
  it.effect("wait for a locked vault with one connection, and others' reads do not wait", () =>
    Effect.gen(function*() {
      const [locked, other] = [yield* setUp("Pending"), yield* setUp("Pending")]
      yield* assertOneWaits(locked, other)
      const { length } = yield* transactions(locked)
      assert.isTrue(length > 0 && length <= 3, `in ${length} transactions`)
    }))

  it.effect("do so where recoveries from users who owe may fund the rewards", () =>
    Effect.gen(function*() {
      const [locked, other] = [yield* setUp("AwaitingFunding"), yield* setUp("Pending")]
      const claimableAt = yield* Clock.currentTimeMillis
      yield* addRewards(locked, { prefix: "ann", users: "one", count: users, state: "Pending", claimableAt })
      yield* addOwed(locked, "an", 1, 0)
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE user_balances SET owed = ${Database.value.int4(users)}
        WHERE integrator_id = ${locked} AND user_id = 'ann'`
      yield* assertOneWaits(locked, other)
    }))

  it.effect("do not wait for the vault where only another asset's users who owe have due rewards", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("AwaitingFunding")
      const sql = yield* SqlClient.SqlClient
      yield* sql`INSERT INTO user_balances (integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid,
          owed, due_at, due_creation)
        VALUES (${integratorId}, 'ann', 'EURe', 0, 1, 0, 0, 1, '2020-01-01', 1)`
      const release = yield* lock(integratorId)
      assert.deepStrictEqual(new Set(yield* readAll(integratorId)), new Set(["0"]))
      yield* release
    }))

  it.effect("are exact where another transaction recovers what funds the rewards after the rows are read", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("AwaitingFunding")
      const sql = yield* SqlClient.SqlClient
      const claimableAt = yield* Clock.currentTimeMillis
      yield* addRewards(integratorId, { prefix: "ann", users: "one", count: 1, state: "Pending", claimableAt })
      yield* sql`UPDATE user_balances SET owed = 1 WHERE integrator_id = ${integratorId} AND user_id = 'ann'`
      const now = yield* nowOf(integratorId)
      const rows = sql<{ waits: boolean; due: Due }>`
        SELECT awaiting_funding > 0 AS waits, ${dueOf(sql, now)} AS due
        FROM user_balances b WHERE b.integrator_id = ${integratorId} AND b.user_id = 'user2'`
      const recover = yield* Effect.cached(Ledger.catchUp([{ integratorId, userIds: new Set() }]))
      const reading = Database.withoutDeadline(Effect.tap(rows, recover))
      const read = (yield* UpToDate).read(integratorId, UserId.make("user2"), reading)
      assert.deepStrictEqual(yield* read, [{ waits: false, due: null }])
    }).pipe(Effect.provide(UpToDate.layer)))

  it.effect("are answered beside one of a user whose rows are broken", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("Pending")
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE user_balances SET pending = 0 WHERE integrator_id = ${integratorId} AND user_id = 'user7'`
      const release = yield* lock(integratorId)
      const reads = yield* Effect.forkChild(readEach(integratorId))
      yield* until("a session that waits for the vault", waiting, ({ length }) => length > 0)
      yield* release
      const exits = yield* Fiber.join(reads)
      assert.isTrue(exits.every((exit, index) => index === 6 ? Exit.hasDies(exit) : Exit.isSuccess(exit)))
    }))

  it.effect("do not wait until all of another user's many due rewards are applied", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("Pending")
      const claimableAt = (yield* Clock.currentTimeMillis) - 1_000
      yield* addRewards(integratorId, { prefix: "many", users: "one", count: 2_000, state: "Pending", claimableAt })
      yield* addRewards(integratorId, { prefix: "none", users: "one", count: 1, state: "Claimable", claimableAt })
      const release = yield* lock(integratorId)
      const first = yield* Effect.forkChild(claimableOf(integratorId, "user1"))
      yield* until("a session that waits for the vault", waiting, ({ length }) => length > 0)
      // these are joined: the user with many rewards has those that were due first
      const many = yield* Effect.forkChild(claimableOf(integratorId, "many"))
      const few = yield* Effect.forkChild(claimableOf(integratorId, "user2"))
      yield* Effect.repeat(claimableOf(integratorId, "none"), { times: 5 })
      yield* release
      assert.strictEqual(yield* Fiber.join(first), "1")
      assert.strictEqual(yield* Fiber.join(few), "1")
      assert.isUndefined(many.pollUnsafe())
      yield* Fiber.interrupt(many)
    }).pipe(
      Effect.provide(Layer.fresh(Rewards.layer)),
      Effect.provideService(Ledger.PieceSize, 20),
      Effect.provideService(Ledger.CatchUpMillis, 60_000)
    ))

  it.effect("wait for one piece of each other integrator whose users have many due rewards", () =>
    Effect.gen(function*() {
      const blocked = [yield* setUp("Pending"), yield* setUp("Pending")]
      const many = [yield* setUpMany, yield* setUpMany, yield* setUpMany]
      const [first, ...others] = many
      const few = yield* setUp("Pending")
      const claimableAt = yield* Clock.currentTimeMillis
      yield* addRewards(few, { prefix: "none", users: "one", count: 1, state: "Claimable", claimableAt })
      const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
      // all but one of the connections that apply due rewards wait for locked vaults
      const releases = yield* Effect.forEach(blocked, lock)
      for (const integratorId of blocked) fibers.push(yield* Effect.forkChild(claimableOf(integratorId, "user1")))
      const release = yield* lock(first ?? few)
      fibers.push(yield* Effect.forkChild(readMany(first ?? few)))
      yield* until("three sessions that wait for vaults", waiting, ({ length }) => length === 3)
      for (const integratorId of others) fibers.push(yield* Effect.forkChild(readMany(integratorId)))
      yield* Effect.repeat(claimableOf(few, "none"), { times: 5 })
      const last = yield* Effect.forkChild(claimableOf(few, "user1"))
      yield* Effect.repeat(claimableOf(few, "none"), { times: 5 })
      yield* release
      assert.strictEqual(yield* Fiber.join(last), "1")
      yield* Fiber.interruptAll(fibers)
      yield* Effect.all(releases)
      const [answeredAt = 0] = yield* numbersOf(few)
      const before = yield* Effect.forEach(many, (integratorId) =>
        Effect.map(numbersOf(integratorId), (numbers) => numbers.filter((number) => number < answeredAt).length))
      assert.deepStrictEqual(before, [1, 1, 1])
    }).pipe(
      Effect.provide(Layer.fresh(Rewards.layer)),
      Effect.provideService(Ledger.PieceSize, 20)
    ))
})
