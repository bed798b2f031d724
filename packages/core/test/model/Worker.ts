import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"

/** How often a request is repeated after 503: each repeat keeps its progress (decisions, section 6). */
const maxAttempts = 1_000

/** The maximum number of steps of the worker until it has nothing left to do. */
const maxSteps = 5_000

/** A worker that starts anew before each step, and so has no program version compiled that the step does not load. */
export const restarting = Layer.effect(
  Processing,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const started = Layer.fresh(Processing.layer.pipe(Layer.provide(Programs.layer)))
    const step = <A, E>(stepOf: (worker: Processing["Service"]) => Effect.Effect<A, E>) =>
      Effect.flatMap(Processing, stepOf).pipe(
        Effect.provide(started),
        Effect.provideService(SqlClient.SqlClient, sql)
      )
    return Processing.of({
      processEvents: step(({ processEvents }) => processEvents),
      retryQuarantined: step(({ retryQuarantined }) => retryQuarantined),
      quarantined: Effect.never,
      matureRewards: step(({ matureRewards }) => matureRewards)
    })
  })
)

/** Repeats a request while it is Unavailable, as an integrator does. */
export const untilAvailable = <A, E extends { readonly _tag: string }, R>(request: Effect.Effect<A, E, R>) =>
  Effect.retry(request, { while: (error) => error._tag === "Unavailable", times: maxAttempts })

/**
 * Processes queued events, also in quarantine, until the queue has none of the integrator's. The worker processes an
 * empty queue too.
 */
export const processEvents = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const { processEvents, retryQuarantined } = yield* Processing
  const sql = yield* SqlClient.SqlClient
  for (let steps = 0; steps < maxSteps; steps++) {
    const processed = yield* untilAvailable(processEvents)
    const left = yield* sql`SELECT 1 FROM spend_event_queue WHERE integrator_id = ${integratorId} LIMIT 1`
    if (left.length === 0) return
    if (processed === 0) yield* untilAvailable(retryQuarantined)
  }
  return yield* Effect.die(new Error(`stored events are left in the queue after ${maxSteps} steps`))
})

/** All background work on vaults: due rewards of all users, assigned money, payouts of large claims. */
export const matureRewards = Effect.gen(function*() {
  const { matureRewards } = yield* Processing
  for (let steps = 0; steps < maxSteps; steps++) {
    if ((yield* untilAvailable(matureRewards)) === 0) return
  }
  return yield* Effect.die(new Error(`matureRewards finds work after ${maxSteps} steps`))
})

/** Deletes the work of an integrator: what a story could not finish must not make the next one fail. */
export const abandon = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM spend_event_queue WHERE integrator_id = ${integratorId}`
  yield* sql`DELETE FROM rewards WHERE integrator_id = ${integratorId}`
  yield* sql`UPDATE vault_balances SET assigned = 0 WHERE integrator_id = ${integratorId}`
})
