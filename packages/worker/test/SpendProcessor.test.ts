import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { spendEvent } from "@card-rewards/testing/Fixtures"
import { untilTrue } from "@card-rewards/testing/Polling"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as SpendProcessor from "../src/SpendProcessor.ts"

const services = Layer.unwrap(Effect.gen(function*() {
  const url = yield* TestDatabase.makeMigrated(Database.migrate)
  return Layer.mergeAll(Integrators.layer, Users.layer, SpendEvents.layer, Processing.layer).pipe(
    Layer.provide([Environment.layer("sandbox"), Programs.layer]),
    Layer.provideMerge(Database.layer({ url, poolSize: 6, applicationName: "test" }))
  )
}))

const ann = UserId.make("ann")

/** Stores an authorization: it is applied without any program. */
const authorize = Effect.fnUntraced(function*(integratorId: IntegratorId, externalTransactionId: string) {
  const now = yield* Clock.currentTimeMillis
  const authorization = spendEvent(integratorId, ann, now, { kind: "authorization", externalTransactionId })
  yield* (yield* SpendEvents).submit(authorization)
})

layer(services, { excludeTestServices: true })("the processor of spend events", (it) => {
  it.effect("processes others while one integrator's events fail, and these once they can be processed", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [culprit, innocent] = [IntegratorId.make("culprit"), IntegratorId.make("innocent")]
      for (const integratorId of [culprit, innocent]) {
        yield* (yield* Integrators).create(integratorId)
        yield* (yield* Users).put(integratorId, ann, {})
      }
      yield* sql`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.integrator_id = 'culprit' THEN RAISE EXCEPTION 'injected fault'; END IF; RETURN NEW; END $$`
      yield* sql`CREATE TRIGGER fail BEFORE INSERT ON authorizations FOR EACH ROW EXECUTE FUNCTION fail()`
      const applied = (integratorId: IntegratorId, count: number) =>
        Effect.map(
          sql`SELECT FROM authorizations WHERE integrator_id = ${integratorId}`,
          (rows) => rows.length === count
        )
      const quarantined = sql<{ integratorId: string; error: string }>`SELECT integrator_id, error FROM quarantine`
      for (const integratorId of [culprit, innocent]) yield* authorize(integratorId, "a1")
      yield* Layer.build(SpendProcessor.layer)
      yield* untilTrue(applied(innocent, 1))
      yield* untilTrue(Effect.map(quarantined, (rows) => rows.length === 1))
      assert.deepStrictEqual(yield* quarantined, [{ integratorId: culprit, error: "injected fault" }])
      for (const integratorId of [culprit, innocent]) yield* authorize(integratorId, "a2")
      yield* untilTrue(applied(innocent, 2))

      yield* sql`DROP FUNCTION fail CASCADE`
      yield* untilTrue(applied(culprit, 2))
      yield* untilTrue(Effect.map(quarantined, (rows) => rows.length === 0))
    }).pipe(Effect.scoped))
})
