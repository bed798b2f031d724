import { Audit } from "@card-rewards/core/Audit"
import * as Ledger from "@card-rewards/core/Ledger"
import { Processing } from "@card-rewards/core/Processing"
import * as Quarantine from "@card-rewards/core/Processing/Quarantine"
import { Vault } from "@card-rewards/core/Vault"
import { Reference } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { addOwed, addRewards } from "./BulkRewards.ts"
import {
  changedTables,
  failInserts,
  holdRows,
  processEvents,
  quarantineOf,
  retryQuarantined,
  rewardCount,
  setUp,
  skipChanges,
  notApplied
} from "./Quarantined.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

const audited = Effect.gen(function*() {
  assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
})

layer(moneyLayer)("an integrator whose part of a batch fails", (it) => {
  for (const table of ["rewards", "user_balances"] as const) {
    it.effect(`is isolated by the step that failed, even where the error names no integrator (${table})`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(startMillis)
        const tenants = [yield* setUp(), yield* setUp(), yield* setUp(), yield* setUp(), yield* setUp()]
        const [, , , culprit] = tenants
        if (culprit === undefined) return
        const heal = yield* failInserts(table, culprit.integratorId)
        for (const { send } of tenants) yield* send()
        yield* processEvents
        for (const { integratorId } of tenants) {
          const expected = integratorId === culprit.integratorId ? ["e1"] : []
          assert.deepStrictEqual(yield* notApplied(integratorId), expected)
        }
        const error = `injected fault in ${table}`
        const expected = (failures: number, pauseMillis: number) =>
          ({ reason: "failing", error, failures, pauseMillis })
        assert.deepStrictEqual(yield* quarantineOf(culprit.integratorId), expected(1, 250))
        // joint batches skip it
        yield* culprit.send()
        assert.strictEqual(yield* processEvents, 0)
        assert.strictEqual(yield* retryQuarantined, 0)
        for (const [index, pauseMillis] of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].entries()) {
          yield* TestClock.adjust((yield* quarantineOf(culprit.integratorId))?.pauseMillis ?? 0)
          yield* retryQuarantined
          assert.deepStrictEqual(yield* quarantineOf(culprit.integratorId), expected(index + 2, pauseMillis))
        }
        assert.deepStrictEqual(yield* notApplied(culprit.integratorId), ["e1", "e2"])

        yield* heal
        yield* TestClock.adjust(30_000)
        assert.isAbove(yield* retryQuarantined, 0)
        assert.deepStrictEqual(yield* notApplied(culprit.integratorId), [])
        assert.isUndefined(yield* quarantineOf(culprit.integratorId))
        yield* culprit.send()
        yield* processEvents
        assert.strictEqual(yield* rewardCount(culprit.integratorId), 3)
        yield* audited
      }))
  }

  for (const table of changedTables) {
    it.effect(`is isolated where a row that was read is not the one that is changed (${table})`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(startMillis)
        const [innocent, culprit] = [yield* setUp(), yield* setUp()]
        // the second event of a user changes rows of all these tables
        yield* culprit.send()
        yield* processEvents
        const heal = yield* skipChanges(table, culprit.integratorId)
        for (const { send } of [culprit, innocent]) yield* send()
        yield* processEvents
        assert.strictEqual(yield* rewardCount(innocent.integratorId), 1)
        assert.strictEqual(yield* rewardCount(culprit.integratorId), 1)
        assert.deepStrictEqual(yield* notApplied(culprit.integratorId), ["e2"])
        const error = `0 of 1 rows of ${table} are those that were read`
        const expected = { reason: "failing", error, failures: 1, pauseMillis: 250 }
        assert.deepStrictEqual(yield* quarantineOf(culprit.integratorId), expected)
        yield* heal
        yield* TestClock.adjust(250)
        assert.isAbove(yield* retryQuarantined, 0)
        assert.strictEqual(yield* rewardCount(culprit.integratorId), 2)
        yield* audited
      }))
  }

  it.effect("is isolated where one of its definitions cannot be compiled", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const sql = yield* SqlClient.SqlClient
      const [innocent, culprit] = [yield* setUp(), yield* setUp()]
      const ofCulprit = sql`integrator_id = ${culprit.integratorId}`
      const change = (definition: string) =>
        Effect.andThen(
          sql`UPDATE program_versions SET definition = ${definition}::jsonb WHERE ${ofCulprit}`,
          sql`UPDATE integrators SET programs_revision = programs_revision + 1 WHERE ${ofCulprit}`
        )
      const [stored] = yield* sql<{ text: string }>`
        SELECT definition::text AS text FROM program_versions WHERE ${ofCulprit}`
      yield* change(`{"asset": "USDC", "baseRate": "a lot"}`)
      yield* innocent.send()
      yield* culprit.send()
      yield* processEvents
      assert.deepStrictEqual(yield* notApplied(innocent.integratorId), [])
      assert.deepStrictEqual(yield* notApplied(culprit.integratorId), ["e1"])
      assert.strictEqual((yield* quarantineOf(culprit.integratorId))?.reason, "failing")
      yield* TestClock.adjust(250)
      yield* retryQuarantined
      assert.strictEqual((yield* quarantineOf(culprit.integratorId))?.failures, 2)

      yield* change(stored?.text ?? "")
      yield* TestClock.adjust(500)
      yield* retryQuarantined
      assert.isUndefined(yield* quarantineOf(culprit.integratorId))
      assert.deepStrictEqual(yield* notApplied(culprit.integratorId), [])
      yield* audited
    }))

  for (const table of ["vaults", "user_balances"] as const) {
    it.effect(`is skipped while another session has locked its rows (${table}), and processed once that is over`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(startMillis)
        const [innocent, culprit] = [yield* setUp(), yield* setUp()]
        for (const { send } of [innocent, culprit]) yield* send()
        yield* processEvents
        for (const { send } of [innocent, culprit]) yield* send()
        const letGo = yield* holdRows(table, culprit.integratorId)
        yield* processEvents
        assert.deepStrictEqual(yield* notApplied(innocent.integratorId), [])
        assert.deepStrictEqual(yield* notApplied(culprit.integratorId), ["e2"])
        // another worker's batch may have locked the vault: only a vault that stays locked leads to quarantine
        assert.strictEqual((yield* quarantineOf(culprit.integratorId)) === undefined, table === "vaults")
        yield* TestClock.adjust(2_000)
        yield* processEvents
        assert.strictEqual((yield* quarantineOf(culprit.integratorId))?.reason, "locked")
        yield* TestClock.adjust(250)
        yield* retryQuarantined
        const { failures, reason } = (yield* quarantineOf(culprit.integratorId)) ?? {}
        assert.deepStrictEqual({ failures, reason }, { failures: 2, reason: "locked" })

        yield* letGo
        yield* TestClock.adjust(500)
        yield* retryQuarantined
        assert.deepStrictEqual(yield* notApplied(culprit.integratorId), [])
        assert.isUndefined(yield* quarantineOf(culprit.integratorId))
      }))
  }

  it.effect("is caught up with piece by piece where more of its rewards are due than one transaction applies", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const sql = yield* SqlClient.SqlClient
      const [innocent, culprit] = [yield* setUp(), yield* setUp()]
      const { integratorId } = culprit
      const due = { prefix: "user-0", users: "one", count: 600, state: "Pending", claimableAt: startMillis } as const
      yield* addRewards(integratorId, due)
      yield* innocent.send()
      yield* culprit.send()

      yield* Effect.provideService(processEvents, Ledger.PieceSize, 100)
      assert.deepStrictEqual(yield* notApplied(innocent.integratorId), [])
      assert.deepStrictEqual(yield* notApplied(integratorId), ["e1"])
      const { pauseMillis, reason } = (yield* quarantineOf(integratorId)) ?? {}
      assert.deepStrictEqual({ pauseMillis, reason }, { pauseMillis: 0, reason: "behind" })

      const retry = Effect.provideService(retryQuarantined, Ledger.PieceSize, 100)
      while ((yield* quarantineOf(integratorId)) !== undefined) yield* retry
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
      const left = yield* sql`SELECT FROM rewards
        WHERE integrator_id = ${integratorId} AND external_transaction_id <> 'e1' AND state = 'Pending'`
      assert.lengthOf(left, 0)
    }))

  it.effect("has what one of its own events makes due applied before the next event", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const sql = yield* SqlClient.SqlClient
      const [innocent, culprit] = [yield* setUp(), yield* setUp({ users: 2 })]
      const { integratorId, userIds: [userId] } = culprit
      const amount = { asset: "USDC" as const, amount: 1_000_000n }
      yield* (yield* Vault).deposit(integratorId, { reference: Reference.make("d"), amount })
      yield* culprit.send()
      yield* processEvents
      const waiting = { prefix: "owes", users: 30, count: 30, state: "AwaitingFunding" } as const
      yield* addRewards(integratorId, { ...waiting, claimableAt: startMillis })
      yield* addOwed(integratorId, "owes", 30, 1)
      // the refund frees money that funds the waiting rewards; their users owe it: 30 recoveries before the next event
      yield* culprit.send({ kind: "refund", originalTransactionId: "e1" }, userId)
      yield* culprit.send({}, userId)
      yield* innocent.send()
      const limited = <A, E, R>(step: Effect.Effect<A, E, R>) =>
        step.pipe(Effect.provideService(Ledger.PieceSize, 5), Effect.provideService(Ledger.ServedAtOnce, 0))
      yield* limited(processEvents)
      assert.deepStrictEqual(yield* notApplied(innocent.integratorId), [])
      assert.deepStrictEqual(yield* notApplied(integratorId), ["e2", "e3"])
      for (let retry = 0; retry < 50 && (yield* quarantineOf(integratorId)) !== undefined; retry++) {
        yield* limited(retryQuarantined)
      }
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
      const [{ state } = { state: "" }] = yield* sql<{ state: string }>`SELECT state FROM rewards
        WHERE integrator_id = ${integratorId} AND external_transaction_id = 'e3'`
      assert.strictEqual(state, "Pending")
      assert.lengthOf(yield* sql`SELECT FROM rewards WHERE integrator_id = ${integratorId} AND recovered = 1`, 30)
    }))

  it.effect("has its users' events applied in order of arrival nevertheless", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const sql = yield* SqlClient.SqlClient
      const culprit = yield* setUp({ users: 3 })
      const sendAll = Effect.forEach(culprit.userIds, (userId) => Effect.replicateEffect(culprit.send({}, userId), 3))
      yield* sendAll
      const heal = yield* failInserts("rewards", culprit.integratorId)
      yield* processEvents
      yield* sendAll
      yield* TestClock.adjust(250)
      yield* retryQuarantined
      yield* heal
      yield* TestClock.adjust(500)
      yield* retryQuarantined
      yield* sendAll
      yield* processEvents
      const rows = yield* sql<{ userId: string; inOrder: boolean }>`
        SELECT user_id, array_agg(arrival ORDER BY position) = array_agg(arrival ORDER BY arrival) AS in_order
        FROM spend_events WHERE integrator_id = ${culprit.integratorId} AND position IS NOT NULL
        GROUP BY user_id HAVING count(*) = 9 ORDER BY user_id`
      assert.deepStrictEqual(rows, culprit.userIds.map((userId) => ({ userId, inOrder: true })))
    }))

  it.effect("is retried by one worker at a time, and by another one 90 s after that worker was killed", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const { integratorId } = yield* setUp()
      yield* Quarantine.add(integratorId, { reason: "failing", error: "a\0b" })
      assert.isUndefined(yield* Quarantine.lease())
      yield* TestClock.adjust(250)
      const [first, second] = yield* Effect.all([Quarantine.lease(), Quarantine.lease()], { concurrency: 2 })
      const killed = first ?? second
      assert.isDefined(killed)
      assert.isTrue(first === undefined || second === undefined)
      yield* TestClock.adjust(89_999)
      assert.isUndefined(yield* Quarantine.lease())
      yield* TestClock.adjust(1)
      const next = yield* Quarantine.lease()
      assert.strictEqual(next?.integratorId, integratorId)
      // the result of a retry whose lease has expired changes nothing
      if (killed !== undefined) yield* Quarantine.release(killed)
      if (killed !== undefined) yield* Quarantine.fail(killed, { reason: "locked", error: "" })
      const row = yield* quarantineOf(integratorId)
      assert.deepStrictEqual(row, { reason: "failing", error: "ab", failures: 1, pauseMillis: 90_000 })
      if (next !== undefined) yield* Quarantine.release(next)
      assert.isUndefined(yield* quarantineOf(integratorId))
    }))

  it.effect("wakes the worker that waits for quarantined integrators", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const { quarantined } = yield* Processing
      const culprit = yield* setUp()
      const heal = yield* failInserts("rewards", culprit.integratorId)
      yield* retryQuarantined
      const waiting = yield* Effect.forkChild(quarantined)
      yield* culprit.send()
      yield* processEvents
      yield* Fiber.join(waiting)
      yield* heal
      yield* TestClock.adjust(250)
      yield* retryQuarantined
      assert.isUndefined(yield* quarantineOf(culprit.integratorId))
    }))
})
