import { Audit, type AuditProgress } from "@card-rewards/core/Audit"
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
    yield* vault.claim(integratorId, { reference: Reference.make("p1"), userId, amount: amount(2_500_000n) })
    yield* send("refund", "r1", 5_000, { originalTransactionId: "c1" })
    yield* send("clearing", "c3", 90_000)
    yield* send("refund", "r2", 100, { originalTransactionId: "unknown" })
    return true as const
  })
)

/** What is changed, the statements that change it and change it back, and the rule that must find it. */
const faults: ReadonlyArray<readonly [fault: string, plant: string, undo: string, rule: string]> = [
  [
    "a user's claimable balance",
    "UPDATE user_balances SET claimable = claimable + 1",
    "UPDATE user_balances SET claimable = claimable - 1",
    "user balances equal the sums"
  ],
  [
    "a user's owed balance",
    "UPDATE user_balances SET owed = owed + 1",
    "UPDATE user_balances SET owed = owed - 1",
    "rewards add up"
  ],
  [
    "a missing balance row",
    "CREATE TABLE kept AS TABLE user_balances; DELETE FROM user_balances",
    "INSERT INTO user_balances TABLE kept; DROP TABLE kept",
    "user balances equal the journal"
  ],
  [
    "free money of the vault",
    "UPDATE vault_balances SET free = free + 1 WHERE asset = 'USDC'",
    "UPDATE vault_balances SET free = free - 1 WHERE asset = 'USDC'",
    "free and assigned money of the vault"
  ],
  [
    "held money of the vault",
    "UPDATE vault_balances SET held = held + 1 WHERE asset = 'USDC'",
    "UPDATE vault_balances SET held = held - 1 WHERE asset = 'USDC'",
    "held = deposits"
  ],
  [
    "a deposit's amount",
    "UPDATE vault_operations SET amount = amount + 1 WHERE reference = 'd1'",
    "UPDATE vault_operations SET amount = amount - 1 WHERE reference = 'd1'",
    "each vault operation is in the journal"
  ],
  [
    "a reward's paid amount",
    "UPDATE rewards SET paid = paid - 1, amount = amount - 1, earned = earned - 1 WHERE creation = 2",
    "UPDATE rewards SET paid = paid + 1, earned = earned + 1, amount = amount + 1 WHERE creation = 2",
    "each reward equals its journal"
  ],
  [
    "a reward's net amount",
    "UPDATE rewards SET amount = amount - 1 WHERE creation = 3",
    "UPDATE rewards SET amount = amount + 1 WHERE creation = 3",
    "amount = floor"
  ],
  [
    "a reward's revision",
    "UPDATE rewards SET revision = revision + 1 WHERE creation = 1",
    "UPDATE rewards SET revision = revision - 1 WHERE creation = 1",
    "one event per revision"
  ],
  [
    "a reward's spend",
    "UPDATE spend_events SET cents = cents + 1 WHERE external_transaction_id = 'c3'",
    "UPDATE spend_events SET cents = cents - 1 WHERE external_transaction_id = 'c3'",
    "belongs to an applied clearing"
  ],
  [
    "a refund's amount",
    "UPDATE spend_events SET cents = cents + 1 WHERE external_transaction_id = 'r1'",
    "UPDATE spend_events SET cents = cents - 1 WHERE external_transaction_id = 'r1'",
    "refunds of a clearing"
  ],
  [
    "what a cap counted",
    "UPDATE cap_usage SET used = used + 1 WHERE category_id = 'groceries'",
    "UPDATE cap_usage SET used = used - 1 WHERE category_id = 'groceries'",
    "caps count"
  ],
  [
    "an event's body",
    `UPDATE events SET body = replace(body, '"paid":"0"', '"paid":"1"') WHERE event = (SELECT max(event) FROM events)`,
    `UPDATE events SET body = replace(body, '"paid":"1"', '"paid":"0"') WHERE event = (SELECT max(event) FROM events)`,
    "equals its latest event"
  ],
  [
    "a missing event",
    "CREATE TABLE kept AS SELECT * FROM events WHERE event = 2; DELETE FROM events WHERE event = 2",
    "INSERT INTO events TABLE kept; DROP TABLE kept",
    "events are numbered without gaps"
  ],
  [
    "a journal entry's amount",
    "UPDATE journal SET amount = amount + 1 WHERE entry = 2",
    "UPDATE journal SET amount = amount - 1 WHERE entry = 2",
    "each reward equals its journal"
  ],
  [
    "a missing journal entry",
    "CREATE TABLE kept AS SELECT * FROM journal WHERE entry = 1; DELETE FROM journal WHERE entry = 1",
    "INSERT INTO journal TABLE kept; DROP TABLE kept",
    "journal entries are numbered without gaps"
  ],
  [
    "a spend event that is neither queued nor set aside",
    "CREATE TABLE kept AS TABLE spend_event_waits; DELETE FROM spend_event_waits",
    "INSERT INTO spend_event_waits TABLE kept; DROP TABLE kept",
    "queued or set aside"
  ],
  [
    "a spend event that waits for an applied one",
    "UPDATE spend_event_waits SET original_id = 'c1'",
    "UPDATE spend_event_waits SET original_id = 'unknown'",
    "nothing waits for an event"
  ],
  [
    "a webhook attempt without a delivery",
    "INSERT INTO delivery_attempts SELECT integrator_id, 999, 1, 1, now(), 1, 200 FROM integrators",
    "DELETE FROM delivery_attempts WHERE event = 999",
    "every webhook attempt belongs to a delivery"
  ],
  [
    "a position in a lane",
    "UPDATE lanes SET position = position + 1 WHERE position > 0",
    "UPDATE lanes SET position = position - 1 WHERE position > 0",
    "numbered without gaps in their lane"
  ],
  [
    "assigned money",
    "UPDATE vault_balances SET assigned = 1, held = held + 1 WHERE asset = 'USDC'",
    "UPDATE vault_balances SET assigned = 0, held = held - 1 WHERE asset = 'USDC'",
    "assigned money equals the sum"
  ],
  [
    "free money that a waiting reward should have",
    "UPDATE vault_balances SET free = free + 90000000, held = held + 90000000 WHERE asset = 'USDC'",
    "UPDATE vault_balances SET free = free - 90000000, held = held - 90000000 WHERE asset = 'USDC'",
    "free money is less than"
  ],
  [
    "the accounts of a journal entry",
    "UPDATE journal SET from_account = 'world' WHERE entry = 2",
    "UPDATE journal SET from_account = 'free' WHERE entry = 2",
    "between known accounts"
  ],
  [
    "the user of a journal entry",
    "UPDATE journal SET user_id = 'u2' WHERE entry = 2",
    "UPDATE journal SET user_id = 'u1' WHERE entry = 2",
    "user balances equal the journal"
  ],
  [
    "an authorization's total",
    "UPDATE authorizations SET incremented = incremented + 1",
    "UPDATE authorizations SET incremented = incremented - 1",
    "the stored events, applied again"
  ],
  [
    "an estimate",
    "UPDATE open_estimates SET raw = raw + 1",
    "UPDATE open_estimates SET raw = raw - 1",
    "the stored events, applied again"
  ],
  [
    "an expected balance",
    "UPDATE expected_balances SET expected = expected + 1",
    "UPDATE expected_balances SET expected = expected - 1",
    "the stored events, applied again"
  ],
  [
    "what the caps had counted before a reward",
    "UPDATE rewards SET month_used_before = month_used_before + 1 WHERE creation = 2",
    "UPDATE rewards SET month_used_before = month_used_before - 1 WHERE creation = 2",
    "the stored events, applied again"
  ],
  [
    "a purchase's merchant",
    "UPDATE spend_events SET mcc = '9999' WHERE external_transaction_id = 'c2'",
    "UPDATE spend_events SET mcc = '5411' WHERE external_transaction_id = 'c2'",
    "the stored events, applied again"
  ],
  [
    "a published rate",
    `UPDATE program_versions SET definition = jsonb_set(definition, '{baseRate}', '101')`,
    `UPDATE program_versions SET definition = jsonb_set(definition, '{baseRate}', '100')`,
    "the stored events, applied again"
  ],
  [
    "an operation's event",
    "UPDATE events SET body = replace(body, '3000000', '3000001') WHERE event = 1",
    "UPDATE events SET body = replace(body, '3000001', '3000000') WHERE event = 1",
    "each vault operation has one event"
  ],
  [
    "an authorization of a user who never had one",
    "UPDATE authorizations SET user_id = 'u2'",
    "UPDATE authorizations SET user_id = 'u1'",
    "of users with applied authorizations"
  ]
]

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

  it.effect.each(faults)("finds and names %s changed by hand", ([, plant, undo, rule]) =>
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
})
