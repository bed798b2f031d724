import { Processing } from "@card-rewards/core/Processing"
import { Integrators } from "@card-rewards/core/Integrators"
import { Rewards } from "@card-rewards/core/Rewards"
import { UserBalance } from "@card-rewards/domain/Balance"
import { IntegratorId, Reference, UserId } from "@card-rewards/domain/Ids"
import { assert } from "@effect/vitest"
import { Clock, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"

/** All rewards of one user; pending ones. */
export const [ofAnn, pending] = [{ prefix: "ann", users: "one" }, { state: "Pending" }] as const

let made = 0
/** A fresh integrator, and the time. */
export const setUp = Effect.gen(function*() {
  const integratorId = IntegratorId.make(`large-${made++}`)
  yield* (yield* Integrators).create(integratorId)
  return { integratorId, now: yield* Clock.currentTimeMillis }
})

/** An operation of an amount of USDC. */
export const usdc = (reference: string, amount: bigint) => ({
  reference: Reference.make(reference),
  amount: { asset: "USDC" as const, amount }
})

/** A user's balance in USDC. */
export const balanceOf = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: string) {
  const read = yield* (yield* Rewards).balance(integratorId, UserId.make(userId))
  const { balances } = Schema.decodeSync(UserBalance)(read)
  const { awaitingFunding, claimable, owed, paid, pending } = balances[0] ?? assert.fail("no balance")
  return { awaitingFunding, claimable, owed, paid, pending }
})

/** Repeats a request while it is Unavailable: each time more due rewards have been applied. */
export const asIntegrator = <A, E extends { readonly _tag: string }, R>(request: Effect.Effect<A, E, R>) =>
  Effect.retry(request, { while: (error) => error._tag === "Unavailable", times: 100 })

/** Does the worker's work until there is none. */
export const workAll = Effect.gen(function*() {
  const { matureRewards } = yield* Processing
  while ((yield* matureRewards) > 0);
})

/** How many rewards an integrator has, by state. */
export const statesOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ state: string; n: number }>`SELECT state, count(*)::int4 AS n FROM rewards
    WHERE integrator_id = ${integratorId} GROUP BY state ORDER BY state`
  return Object.fromEntries(rows.map(({ n, state }) => [state, n]))
})
