import * as Unearned from "@card-rewards/core/Processing/Unearned"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEventStatuses } from "@card-rewards/core/SpendEventStatuses"
import { IntegratorId, TransactionId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { notApplied, processEvents, setUp } from "./Quarantined.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

const processAll = Effect.repeat(processEvents, { while: (units) => units > 0 })

/** The stored lists of an integrator, each with the number of its clearings that refer to it. */
const listsOf = Effect.fnUntraced(function*(integratorId: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ programs: string; clearings: number }>`
    SELECT l.programs, (SELECT count(*)::int FROM spend_events e
      WHERE e.integrator_id = l.integrator_id AND e.unearned = l.digest) AS clearings
    FROM unearned_lists l WHERE l.integrator_id = ${integratorId} ORDER BY l.programs`
})

const insertList = Effect.fnUntraced(function*(integratorId: string, programs: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO unearned_lists (integrator_id, digest, programs)
    SELECT ${integratorId}, substring(sha256(convert_to(p, 'UTF8')) FOR 16), p FROM (VALUES (${programs})) AS t(p)`
})

/** Completes once another session waits for the end of the caller's transaction. */
const oneWaits = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  while (true) {
    const waiting = yield* sql`
      SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`
    if (waiting.length > 0) return
    yield* Effect.yieldNow
  }
})

it("lists are inserted in one order by every transaction, so that no two wait for each other", () => {
  const lists = new Unearned.Lists()
  const some = ["b", "a"].flatMap((name) =>
    ["p", "q", "r"].flatMap((programId) =>
      lists.of(IntegratorId.make(name)).and(programId, 1, "zeroRate").toList() ?? []))
  assert.lengthOf(some, 6)
  assert.deepStrictEqual(Unearned.sorted(some), Unearned.sorted(some.toReversed()))
})

layer(moneyLayer)("the programs in which a clearing earned nothing", (it) => {
  it.effect("are stored once for all clearings with the same ones, over batches, and of each integrator", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const one = yield* setUp({ users: 20, upcoming: 2 })
      const other = yield* setUp({ users: 2, upcoming: 2 })
      for (const { send, userIds } of [one, other, one]) {
        yield* Effect.forEach(userIds, (userId) => send({}, userId))
        yield* processAll
      }
      const programs = `[["p1",null,"noVersionInForce"],["p2",null,"noVersionInForce"]]`
      assert.deepStrictEqual(yield* listsOf(one.integratorId), [{ programs, clearings: 40 }])
      assert.deepStrictEqual(yield* listsOf(other.integratorId), [{ programs, clearings: 2 }])
    }))

  it.effect("are another list after another decision, and none where every program earned", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const { integratorId, send, userIds: [userId = assert.fail()] } = yield* setUp({ upcoming: 1 })
      const statusOf = (id: string) =>
        Effect.flatMap(SpendEventStatuses, ({ get }) =>
          get(integratorId, { userId, kind: "clearing", externalTransactionId: TransactionId.make(id) }))
      const before = yield* send()
      yield* processAll
      // a refund changes nothing of what was decided
      yield* send({ kind: "refund", originalTransactionId: before })
      yield* processAll
      yield* (yield* SandboxClock).set(integratorId, instant(startMillis + 400_000_000))
      const after = yield* send()
      yield* processAll
      assert.lengthOf(yield* listsOf(integratorId), 1)
      const outcomesOf = (id: string) => Effect.map(statusOf(id), ({ outcomes = [] }) => outcomes)
      assert.deepStrictEqual((yield* outcomesOf(before))[1], { programId: "p1", reason: "noVersionInForce" })
      assert.notProperty((yield* outcomesOf(after))[1], "reason")
    }))

  it.effect("may be stored by two transactions at once: one waits for the other's end, and uses its list", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const sql = yield* SqlClient.SqlClient
      const { integratorId, send } = yield* setUp({ upcoming: 1 })
      yield* send()
      const programs = `[["p1",null,"noVersionInForce"]]`
      const inserted = yield* Deferred.make<void>()
      const processing = yield* Effect.forkChild(Effect.andThen(Deferred.await(inserted), processAll))
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* insertList(integratorId, programs)
        yield* Deferred.succeed(inserted, undefined)
        yield* oneWaits
      }))
      yield* Fiber.join(processing)
      assert.isEmpty(yield* notApplied(integratorId))
      assert.deepStrictEqual(yield* listsOf(integratorId), [{ programs, clearings: 1 }])
    }))

  it.effect("cannot be stored under the digest of others", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const error = yield* Effect.flip(sql`INSERT INTO unearned_lists SELECT 'i', sha256('x'), '[]'`)
      assert.strictEqual(error.reason._tag, "ConstraintError")
    }))
})
