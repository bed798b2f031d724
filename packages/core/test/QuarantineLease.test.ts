import * as Quarantine from "@card-rewards/core/Processing/Quarantine"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { notApplied, quarantineOf, retryQuarantined, setUp } from "./Quarantined.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

/** Lets integrators be leased, and no lease end: as PostgreSQL that is being shut down. Returns what ends that. */
const endNoLease = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE FUNCTION keep_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'DELETE' OR NEW.next_attempt_at < OLD.next_attempt_at THEN
      RAISE EXCEPTION 'the database system is shutting down' USING ERRCODE = '57P03';
    END IF;
    RETURN NEW; END $$`
  yield* sql`CREATE TRIGGER keep_lease BEFORE UPDATE OR DELETE ON quarantine
    FOR EACH ROW EXECUTE FUNCTION keep_lease()`
  return sql`DROP FUNCTION keep_lease CASCADE`
})

layer(moneyLayer)("the lease of an integrator in quarantine", (it) => {
  it.effect("is given back as soon as the database answers again", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const { integratorId, send } = yield* setUp()
      yield* send()
      yield* Quarantine.add(integratorId, { reason: "failing", error: "" })
      yield* TestClock.adjust(250)
      const restart = yield* endNoLease
      assert.strictEqual((yield* Effect.flip(retryQuarantined))._tag, "Unavailable")
      assert.strictEqual((yield* Effect.flip(retryQuarantined))._tag, "Unavailable")
      yield* send()
      yield* restart
      assert.isAbove(yield* retryQuarantined, 0)
      assert.isUndefined(yield* quarantineOf(integratorId))
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
    }))

  it.effect("and its retries do not wait an hour after all clocks were set back by one", () =>
    Effect.gen(function*() {
      const later = startMillis + 10 * 3_600_000
      yield* TestClock.setTime(later)
      const { integratorId, send } = yield* setUp()
      yield* send()
      yield* Quarantine.add(integratorId, { reason: "failing", error: "" })
      yield* TestClock.setTime(later + 250)
      const lease = yield* Quarantine.lease()
      assert.strictEqual(lease?.integratorId, integratorId)
      yield* TestClock.setTime(later - 89_000)
      assert.isUndefined(yield* Quarantine.lease(), "the clock of another worker is slow")
      yield* TestClock.setTime(later - 3_600_000)
      assert.isAbove(yield* retryQuarantined, 0)
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
      assert.isUndefined(yield* quarantineOf(integratorId))
    }))

  it.effect("ends for good: what its retry says afterwards leaves the next lease as it is", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const { integratorId } = yield* setUp()
      yield* Quarantine.add(integratorId, { reason: "behind", error: "" })
      const first = (yield* Quarantine.lease()) ?? assert.fail("no lease")
      yield* TestClock.adjust(90_000)
      const second = (yield* Quarantine.lease()) ?? assert.fail("no second lease")
      yield* TestClock.adjust(1_000)
      yield* Quarantine.continueLater(first)
      yield* Quarantine.fail(first, { reason: "failing", error: "" })
      yield* Quarantine.release(first)
      const left = second.leasedUntil - (yield* Clock.currentTimeMillis)
      assert.strictEqual((yield* quarantineOf(integratorId))?.pauseMillis, left)
    }))
})
