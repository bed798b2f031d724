import { Audit, type AuditProgress } from "@card-rewards/core/Audit"
import { serverErrorOf } from "@card-rewards/core/Database/Errors"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { moneyLayer } from "./Spending.ts"
import { newIntegrator, startMillis } from "./TestLayer.ts"
import { faults } from "./AuditFaults.ts"
import type { Fault } from "./EventFaults.ts"
import { historyFaults } from "./HistoryFaults.ts"

/** Provided once the history below is in the layer's database. */
class History extends Context.Service<History, true>()("test/History") {}

/** One integrator: a reward paid in part, one refunded after it was paid, one waiting, one open authorization. */
const history = Layer.effect(
  History,
  Effect.gen(function*() {
    const integratorId = yield* newIntegrator
    const userId = UserId.make("u1")
    const users = yield* Users
    const programs = yield* Programs
    const events = yield* SpendEvents
    const vault = yield* Vault
    const { processEvents } = yield* Processing
    yield* users.put(integratorId, userId, {})
    const categories = [{ id: "groceries", mccs: ["5411"] }]
    const version = definition(startMillis + 400_000, { categories, holdingPeriodDays: 0 })
    yield* programs.publish(integratorId, ProgramId.make("base"), 1, version, [])
    yield* TestClock.adjust(500_000)
    const send = (kind: string, id: string, cents: number, more: object = {}) =>
      events.submit(spendEvent(integratorId, userId, startMillis + 500_000, {
        kind,
        externalTransactionId: id,
        amount: usd(cents),
        ...more
      })).pipe(Effect.andThen(processEvents))
    const amount = (units: bigint) => ({ asset: "USDC" as const, amount: units })
    yield* vault.deposit(integratorId, { reference: Reference.make("d1"), amount: amount(3_000_000n) })
    yield* send("authorization", "a1", 10_000)
    yield* send("clearing", "c1", 10_000)
    yield* send("clearing", "c2", 20_000)
    yield* TestClock.adjust("1 day")
    yield* vault.claim(integratorId, { reference: Reference.make("p1"), userId, amount: amount(2_500_000n) })
    yield* send("refund", "r1", 5_000, { originalTransactionId: "c1" })
    yield* send("clearing", "c3", 90_000)
    yield* send("refund", "r2", 100, { originalTransactionId: "unknown" })
    // the faults come after this, and change what is sealed
    yield* (yield* Audit).run
    return true as const
  })
)

layer(Layer.provideMerge(history, moneyLayer))("the audit", (it) => {
  it.effect("finds nothing in a history that the service has made", () =>
    Effect.gen(function*() {
      yield* History
      const audit = yield* Audit
      assert.deepStrictEqual((yield* audit.run).findings, [])
    }))

  it.effect("reports its progress, check by check, until all are done", () =>
    Effect.gen(function*() {
      const reports: Array<AuditProgress> = []
      const { checks } = yield* (yield* Audit).runWith((progress) => Effect.sync(() => void reports.push(progress)))
      assert.deepStrictEqual([...new Set(reports.map(({ check }) => check))], [...checks])
      assert.isTrue(reports.every(({ ordinal, part }) => part >= 0 && part <= 1 && checks[ordinal - 1] !== undefined))
      assert.deepStrictEqual(
        reports.at(-1),
        { check: checks.at(-1), ordinal: checks.length, checks: checks.length, part: 1 }
      )
    }))

  it.effect("has no time limit on its transaction, however long it works between two statements", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const limits = new Set<string | undefined>()
      const readLimits = Effect.orDie(Effect.gen(function*() {
        for (const name of ["statement_timeout", "idle_in_transaction_session_timeout"]) {
          const [row] = yield* sql<{ limit: string }>`SELECT current_setting(${name}, true) AS "limit"`
          limits.add(row?.limit)
        }
      }))
      yield* (yield* Audit).runWith(() => readLimits)
      assert.deepStrictEqual([...limits], ["0"])
    }))

  it.effect("fails where a check has no room or time, which is no fault of a row", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { run } = yield* Audit
      yield* sql`CREATE FUNCTION no_space() RETURNS boolean STABLE LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'No space left on device' USING ERRCODE = '53100'; END $$`
      yield* sql`ALTER TABLE payouts RENAME TO kept`
      yield* sql`CREATE VIEW payouts AS SELECT * FROM kept WHERE no_space()`
      const error = yield* Effect.flip(run)
      yield* sql`DROP VIEW payouts`
      yield* sql`ALTER TABLE kept RENAME TO payouts`
      yield* sql`DROP FUNCTION no_space`
      assert.strictEqual(serverErrorOf(error)?.message, "No space left on device (53100)")
      assert.deepStrictEqual((yield* run).findings, [])
    }))

  it.effect("finds a vault whose work is forgotten, and not one whose work failed and is tried again", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { run } = yield* Audit
      yield* sql`INSERT INTO payouts (integrator_id, user_id, asset, reference, amount)
        SELECT integrator_id, 'u1', 'USDC', 'unpaid', 1 FROM integrators`
      const isFound = Effect.fnUntraced(function*(workAt: string) {
        yield* sql.unsafe(`UPDATE vaults SET work_at = ${workAt}`)
        return (yield* run).findings.some(({ check }) => check === "the next work on each vault is known")
      })
      for (const workAt of ["now()", "now() + interval '31 s'"]) assert.isFalse(yield* isFound(workAt), workAt)
      for (const workAt of ["now() + interval '90 s'", "NULL"]) assert.isTrue(yield* isFound(workAt), workAt)
      yield* sql`DELETE FROM payouts`
    }))

  it.effect.each([...faults, ...historyFaults])("finds and names %s changed by hand", ([, plant, undo, rule]) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const audit = yield* Audit
      const runAll = (script: string) => Effect.forEach(script.split("; "), (statement) => sql.unsafe(statement))
      yield* runAll(plant)
      const { findings } = yield* audit.run
      yield* runAll(undo)
      assert.include(findings.map(({ check }) => check).join("\n"), rule)
      assert.deepStrictEqual((yield* audit.run).findings, [])
    }))

  it.effect.each(unreadable)("names %s, which hides nothing else", ([, plant, undo, actual]) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const audit = yield* Audit
      const runAll = (script: string) => Effect.forEach(script.split("; "), (statement) => sql.unsafe(statement))
      yield* runAll(`UPDATE user_balances SET claimable = claimable + 1; ${plant}`)
      const { findings } = yield* audit.run
      yield* runAll(`UPDATE user_balances SET claimable = claimable - 1; ${undo}`)
      const all = findings.map((finding) => JSON.stringify(finding)).join("\n")
      assert.include(all, "user balances equal the sums")
      assert.include(all, actual)
      assert.deepStrictEqual((yield* audit.run).findings, [])
    }))
})

/** Rows that a check cannot read, as {@link faults}; last what it says of them. */
const unreadable: ReadonlyArray<Fault> = [
  [
    "an event that is no JSON",
    "CREATE TABLE kept AS TABLE events; UPDATE events SET body = 'broken' WHERE event = 1",
    "UPDATE events e SET body = k.body FROM kept k WHERE e.event = k.event; DROP TABLE kept",
    "invalid input syntax for type json (22P02)"
  ],
  [
    "a user without attributes",
    "CREATE TABLE kept AS TABLE user_attributes; DELETE FROM user_attributes",
    "INSERT INTO user_attributes TABLE kept; DROP TABLE kept",
    "attributes are not read"
  ]
]
