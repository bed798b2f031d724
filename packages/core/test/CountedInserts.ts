import { queuedEvents } from "@card-rewards/core/Processing/Segments"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { UserId } from "@card-rewards/domain/Ids"
import { dayMillis, printTimestamp } from "@card-rewards/domain/Time"
import { spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { Context, Effect, Layer, Result } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { newIntegrator, startMillis, testLayer } from "./TestLayer.ts"

export const services = Users.layer.pipe(Layer.provideMerge(testLayer))

/** What a test does before each statement that inserts, of which it gets the number, from 1. */
type Before = (statement: number) => Effect.Effect<void>

/** A service of its own, as of another process, which counts its inserts. */
const newService = Effect.fnUntraced(function*(before: Before = () => Effect.void) {
  let statements = 0
  const counting: Statement.Transformer = (statement) =>
    Effect.suspend(() =>
      statement.compile()[0].includes("INSERT INTO spend_events ")
        ? Effect.as(before(++statements), statement)
        : Effect.succeed(statement)
    )
  const built = yield* Layer.build(Layer.fresh(SpendEvents.layer)).pipe(
    Effect.provideService(Statement.CurrentTransformer, counting)
  )
  return { ...Context.get(built, SpendEvents), statements: () => statements }
})

/** A fresh integrator with the user `u1`. */
export const newUser = Effect.gen(function*() {
  const integratorId = yield* newIntegrator
  yield* (yield* Users).put(integratorId, UserId.make("u1"), {})
  return integratorId
})

export const setUp = Effect.fnUntraced(function*(before?: Before) {
  return { integratorId: yield* newUser, ...(yield* newService(before)) }
})

/** A clearing of `u1`. */
export const event = (integratorId: IntegratorId, id: string, more: object = {}) =>
  spendEvent(integratorId, "u1", startMillis, { kind: "clearing", externalTransactionId: id, ...more })

export const cents = (amount: number) => ({ amount: usd(amount) })
/** Is refused where its identity is not stored. */
export const ahead = { occurredAt: printTimestamp(startMillis + dayMillis) }

export const outcomeOf = (result: Result.Result<{ readonly duplicate: boolean }, { readonly _tag: string }>) =>
  Result.isFailure(result) ? result.failure._tag : result.success.duplicate ? "duplicate" : "stored"

/** The stored events in order of arrival; each is queued once. */
export const storedEvents = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ externalTransactionId: string; cents: bigint }>`
    SELECT external_transaction_id, cents FROM ${sql.literal(queuedEvents)} q
    JOIN spend_events USING (integrator_id, lane, user_id, kind, external_transaction_id)
    WHERE integrator_id = ${integratorId} ORDER BY arrival`
  return rows.map((row) => [row.externalTransactionId, Number(row.cents)] as const)
})

export const times = <A>(count: number, of: (index: number) => A) =>
  Array.from({ length: count }, (_, index) => of(index))
