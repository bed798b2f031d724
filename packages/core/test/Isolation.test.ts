import { StepMillis } from "@card-rewards/core/Database"
import * as Ledger from "@card-rewards/core/Ledger"
import { Processing } from "@card-rewards/core/Processing"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { untilTrue } from "@card-rewards/testing/Polling"
import { assert, layer } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addOwed, addRewards } from "./BulkRewards.ts"
import { addIntegrators, storeClearings } from "./ManyIntegrators.ts"
import { holdRows, processEvents, quarantineOf, retryQuarantined, setUp, notApplied } from "./Quarantined.ts"
import { liveMoneyLayer } from "./Spending.ts"

/** Makes each update of an integrator's events of a kind take this long. Returns an effect that ends the delay. */
const delayUpdates = Effect.fnUntraced(function*(integratorId: IntegratorId, kind: string, seconds: number) {
  const sql = yield* SqlClient.SqlClient
  const name = `delay_${integratorId}`
  yield* sql.unsafe(`CREATE FUNCTION "${name}"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.integrator_id = '${integratorId}' AND NEW.kind = '${kind}' THEN PERFORM pg_sleep(${seconds}); END IF;
    RETURN NEW; END $$`)
  yield* sql.unsafe(`CREATE TRIGGER "${name}" BEFORE UPDATE ON spend_events FOR EACH ROW EXECUTE FUNCTION "${name}"()`)
  return sql.unsafe(`DROP FUNCTION "${name}" CASCADE`)
})

/**
 * A step of the worker. It fails with its deadline, before PostgreSQL has ended its transaction: this waits for that,
 * as the worker pauses after a failure. A step before that would find the lanes locked, and pass over integrators.
 */
const stepWithin = (millis: number) =>
  processEvents.pipe(
    Effect.provideService(StepMillis, millis),
    Effect.tapErrorTag("Unavailable", () =>
      Effect.flatMap(SqlClient.SqlClient, (sql) => {
        const open = sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND backend_type = 'client backend' AND xact_start IS NOT NULL`
        return untilTrue(Effect.map(open, ({ length }) => length === 0))
      }))
  )

layer(liveMoneyLayer, { excludeTestServices: true })("work that takes long or never ends", (it) => {
  it.effect("processes an integrator whose own events make many rewards due, even if one event fills a retry", () =>
    Effect.gen(function*() {
      const culprit = yield* setUp({ users: 2 })
      const { integratorId, userIds: [userId] } = culprit
      const amount = { asset: "USDC" as const, amount: 1_000_000n }
      yield* (yield* Vault).deposit(integratorId, { reference: Reference.make("d"), amount })
      yield* culprit.send()
      yield* processEvents
      const claimableAt = yield* Clock.currentTimeMillis
      yield* addRewards(integratorId, { prefix: "owes", users: 30, count: 30, state: "AwaitingFunding", claimableAt })
      yield* addOwed(integratorId, "owes", 30, 1)
      // the refund frees money that funds the waiting rewards; their users owe it: 30 recoveries before the next event
      yield* culprit.send({ kind: "refund", originalTransactionId: "e1" }, userId)
      yield* culprit.send({}, userId)
      const endDelay = yield* delayUpdates(integratorId, "refund", 1.1)
      const limited = <A, E, R>(step: Effect.Effect<A, E, R>) =>
        step.pipe(Effect.provideService(Ledger.PieceSize, 5), Effect.provideService(Ledger.ServedAtOnce, 0))
      for (let round = 0; round < 4 && (yield* notApplied(integratorId)).length > 0; round++) {
        yield* limited(processEvents)
        while ((yield* quarantineOf(integratorId)) !== undefined) yield* limited(retryQuarantined)
      }
      yield* endDelay
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
    }))

  it.effect("matures rewards of other vaults while another session has locked the vault that was due first", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { matureRewards } = yield* Processing
      while ((yield* matureRewards) > 0);
      const [held, other] = [yield* setUp(), yield* setUp()]
      const claimableAt = yield* Clock.currentTimeMillis
      for (const { integratorId } of [held, other]) {
        yield* addRewards(integratorId, { prefix: "x", users: 1, count: 1, state: "Pending", claimableAt })
      }
      yield* sql`UPDATE vaults SET work_at = '2020-01-01' WHERE integrator_id = ${held.integratorId}`
      const letGo = yield* holdRows("user_balances", held.integratorId)
      yield* matureRewards
      yield* matureRewards
      const matured = (integratorId: IntegratorId) =>
        sql`SELECT FROM rewards WHERE integrator_id = ${integratorId} AND state = 'Claimable'`
      assert.lengthOf(yield* matured(other.integratorId), 1)
      yield* letGo
      while ((yield* matured(held.integratorId)).length === 0) yield* matureRewards
    }))

  it.effect("finds the integrator that takes too long among hundreds that always have more events", () =>
    Effect.gen(function*() {
      const integrators = 320
      yield* addIntegrators(integrators)
      const culprit = IntegratorId.make("many-150")
      yield* storeClearings(integrators, "first")
      const [took] = yield* Effect.timed(processEvents)
      // what a busy machine takes for the others alone is far from the deadline
      const stepMillis = Math.max(1_000, 8 * Duration.toMillis(took))
      const endDelay = yield* delayUpdates(culprit, "clearing", 3 * stepMillis / 1_000)
      let exceeded = 0
      for (let step = 0; (yield* quarantineOf(culprit)) === undefined; step++) {
        assert.isBelow(step, 60)
        yield* storeClearings(integrators, `c${step}`)
        yield* Effect.catchTag(stepWithin(stepMillis), "Unavailable", () => Effect.sync(() => exceeded++))
      }
      // batches of 256, 64, 16 and 4 integrators, then twice the integrator alone: the second time it is quarantined
      assert.isAtMost(exceeded, 6)
      yield* endDelay
    }))

  it.effect("puts a slow integrator into quarantine also where batches in between could not lock its lanes", () =>
    Effect.gen(function*() {
      while ((yield* processEvents) > 0);
      const culprit = yield* setUp()
      const { integratorId } = culprit
      yield* culprit.send()
      const endDelay = yield* delayUpdates(integratorId, "clearing", 2)
      yield* Effect.flip(Effect.forever(stepWithin(500)))
      const letGo = yield* holdRows("lanes", integratorId)
      for (let step = 0; step < 4; step++) yield* processEvents
      yield* letGo
      assert.isUndefined(yield* quarantineOf(integratorId))
      for (let step = 0; step < 4 && (yield* quarantineOf(integratorId)) === undefined; step++) {
        yield* Effect.exit(stepWithin(500))
        if (step > 1) assert.isDefined(yield* quarantineOf(integratorId))
      }
      assert.isDefined(yield* quarantineOf(integratorId))
      yield* endDelay
      while ((yield* notApplied(integratorId)).length > 0) yield* retryQuarantined
    }))

  it.effect("reports work where it finds only integrators of a batch that exceeded its deadline", () =>
    Effect.gen(function*() {
      const step = stepWithin(500)
      // every other step processes suspects: the batch exceeds its deadline once before and once after such a step
      for (const idleSteps of [1, 2, 2, 1]) {
        while ((yield* processEvents) > 0);
        for (let count = 1; count < idleSteps; count++) yield* processEvents
        const culprit = yield* setUp()
        yield* culprit.send()
        const endDelay = yield* delayUpdates(culprit.integratorId, "clearing", 2)
        yield* Effect.flip(step)
        yield* endDelay
        while ((yield* notApplied(culprit.integratorId)).length > 0) assert.isAbove(yield* processEvents, 0)
      }
    }))
})
