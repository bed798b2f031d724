import { Deliveries, type Outcome, type Outgoing } from "@card-rewards/core/Deliveries"
import { type AttemptResult, isSuccess } from "@card-rewards/domain/Delivery"
import { Clock, Effect, Latch, Layer } from "effect"
import { type Answer, Connector, ConnectorError } from "./Connector.ts"
import { DispatcherWakeUp } from "./DispatcherWakeUp.ts"
import * as Loop from "./Loop.ts"
import { observe } from "./WebhookDispatcher/AttemptTelemetry.ts"
import { type Place, Places } from "./WebhookDispatcher/Places.ts"
import { Recording } from "./WebhookDispatcher/Recording.ts"
import { signerOf } from "./WebhookDispatcher/Signing.ts"

/** Pause after a look that found nothing due, unless an attempt ends, or this process stores events, before. */
const idleMillis = 60
/** What would be repeated if the process were killed: places that are taken, and outcomes that are not recorded yet. */
const maxUnrecorded = 768
/** Pause after a look that found no endpoint deleted or moved. */
const settleIdleMillis = 500
/** How long a stopping process waits for its attempts; what is not finished then is left for its claim to expire. */
const drainMillis = 6_500
const drainPollMillis = 10

/** An attempt that has ended. Where it failed, it keeps its place until that is recorded and the breaker knows. */
interface Ended {
  readonly outcome: Outcome
  readonly place: Place
}

/**
 * The fibers that deliver events (contract, section 6; decisions, section 7): one claims and sends, one records, so that
 * neither waits for the other's statements; one carries changes of endpoints over to their deliveries. At most 16 requests
 * are in flight per endpoint, and 512 in all.
 */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const deliveries = yield* Deliveries
  const connector = yield* Connector
  const observed = yield* observe
  const clock = yield* Clock.Clock
  const log = Effect.runForkWith(yield* Effect.context())
  /** Undefined where it throws: other attempts go on. */
  const guarded = <A>(run: () => A): A | undefined => {
    try {
      return run()
    } catch (defect) {
      log(Effect.logError("A webhook attempt met a defect", defect))
      return undefined
    }
  }
  const millisSince = (nanos: bigint): number => Number(clock.monotonicTimeNanosUnsafe() - nanos) / 1e6
  const places = new Places()
  const aborts = new Map<Place, () => void>()
  const wakeClaims = (yield* DispatcherWakeUp) ?? (yield* Latch.make())
  const wakeRecords = yield* Latch.make()

  const release = (place: Place): void => {
    places.release(place)
    wakeClaims.openUnsafe()
  }
  const recording = new Recording<Ended>(deliveries, ({ place }) => release(place))

  const send = (outgoing: Outgoing, startedAt: number): void => {
    const { body, claim, eventId, secrets, url } = outgoing
    const place = places.take(claim, startedAt)
    const begun = clock.monotonicTimeNanosUnsafe()
    const observedEnd = guarded(() => observed(outgoing)) ?? ignored
    let hasEnded = false
    const end = (result: AttemptResult): void => {
      if (hasEnded) return
      hasEnded = true
      aborts.delete(place)
      const durationMillis = Math.round(millisSince(begun))
      const success = isSuccess(result)
      places.learn(claim.integratorId, { success, durationMillis })
      recording.add({ outcome: { claim, url, startedAt, durationMillis, result }, place })
      if (success) release(place)
      wakeRecords.openUnsafe()
      guarded(() => observedEnd(result, durationMillis))
    }
    const abort = guarded(() => {
      const attempt = { eventId, body, timestampSeconds: Math.floor(startedAt / 1_000), attempt: claim.attempt }
      const headers = { ...commonHeaders, ...signerOf(secrets)(attempt) }
      return connector.post({ url, body, headers }, (outcome) => end(resultOf(outcome)))
    })
    // a fault of ours counts as an attempt, so that one delivery cannot be tried for ever without a trace
    if (abort === undefined) end({ error: "other" })
    else if (!hasEnded) aborts.set(place, abort)
  }

  const unfinished = () => places.inFlight > 0 || recording.size > 0
  const drain = (millis: number) =>
    Effect.suspend(() => unfinished() ? Effect.sleep(drainPollMillis) : Effect.void).pipe(
      Effect.repeat({ while: unfinished }),
      Effect.timeoutOption(millis)
    )

  const claim = Effect.gen(function*() {
    yield* wakeClaims.close
    const now = clock.currentTimeMillisUnsafe()
    const offer = places.offer(now)
    // what this process has delivered it does not claim again, though it may
    if (offer.hasExpired || recording.hasExpired(now)) return false
    const limit = Math.min(offer.limit, maxUnrecorded - places.inFlight - recording.size)
    const outgoing = yield* deliveries.claim({ ...offer, now, limit })
    const sentAt = clock.currentTimeMillisUnsafe()
    for (const one of outgoing) if (sentAt < one.sendBefore) send(one, sentAt)
    return outgoing.length > 0
  })

  const claims = Layer.effectDiscard(Effect.gen(function*() {
    let stoppedAt = 0n
    yield* Effect.addFinalizer(() =>
      Effect.andThen(
        Effect.suspend(() => drain(drainMillis - millisSince(stoppedAt))),
        Effect.sync(() => {
          for (const abort of aborts.values()) abort()
        })
      ))
    // what is claimed is sent, also by a process that stops: nobody else may send it for a minute
    yield* Effect.forkScoped(
      Loop.run("WebhookDispatcher", Effect.uninterruptible(claim), { idleMillis, wake: wakeClaims.await })
    )
    yield* Effect.addFinalizer(() => Effect.sync(() => void (stoppedAt = clock.monotonicTimeNanosUnsafe())))
  }))

  // Closed in reverse: no more claims, attempts end, their outcomes are recorded.
  return claims.pipe(Layer.provideMerge(Layer.merge(
    Loop.layer("WebhookDispatcher records", Effect.andThen(wakeRecords.close, recording.step), { idleMillis, wake: wakeRecords.await }),
    Loop.layer("WebhookDispatcher settles", deliveries.settle, { idleMillis: settleIdleMillis })
  )))
}))

const resultOf = (outcome: Answer | ConnectorError): AttemptResult =>
  outcome instanceof ConnectorError
    ? { error: outcome.reason }
    : { status: outcome.status, answer: outcome.bodySnippet, retryAfterSeconds: outcome.retryAfterSeconds }

const ignored = () => undefined

const commonHeaders = { "content-type": "application/json", "user-agent": "card-rewards/1" }
