import { Deliveries, type Outcome, type Outgoing } from "@card-rewards/core/Deliveries"
import { type AttemptResult, isSuccess } from "@card-rewards/domain/Delivery"
import { Clock, Effect, Latch, Layer } from "effect"
import { type Answer, Connector, ConnectorError } from "./Connector.ts"
import { Deliverable } from "./Deliverable.ts"
import * as Loop from "./Loop.ts"
import { observe } from "./WebhookDispatcher/AttemptTelemetry.ts"
import { type Place, Places } from "./WebhookDispatcher/Places.ts"
import { signerOf } from "./WebhookDispatcher/Signing.ts"

/** Pause after a look that found nothing due, unless an attempt ends, or this process stores events, before. */
const idleMillis = 60
/** Outcomes recorded at a time; attempts that end meanwhile go into the next batch. */
const maxRecorded = 512
/** A batch of fewer outcomes waits a moment for more: what a statement costs beside its rows is shared by them. */
const fewOutcomes = 256
const gatherMillis = 12
/** What would be repeated if the process were killed: places that are taken, and outcomes that are not recorded yet. */
const maxUnrecorded = 768
/** Pause after a look that found no endpoint deleted or moved. */
const settleIdleMillis = 500
/** How long a stopping process waits for its attempts; what is not finished then is left for its claim to expire. */
const drainMillis = 8_000
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
  const places = new Places()
  const aborts = new Map<Place, () => void>()
  /** Outcomes that were refused alone, while others were recorded. */
  const suspects = new WeakSet<Outcome>()
  let ended: Array<Ended> = []
  const wakeClaims = (yield* Deliverable) ?? (yield* Latch.make())
  const wakeRecords = yield* Latch.make()

  const release = (place: Place): void => {
    places.release(place)
    wakeClaims.openUnsafe()
  }

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
      const durationMillis = Math.round(Number(clock.monotonicTimeNanosUnsafe() - begun) / 1e6)
      const success = isSuccess(result)
      places.learn(claim.integratorId, { success, durationMillis })
      ended.push({ outcome: { claim, url, startedAt, durationMillis, result }, place })
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

  const record = Effect.gen(function*() {
    yield* wakeRecords.close
    if (ended.length === 0) return false
    if (ended.length < fewOutcomes) yield* Effect.sleep(gatherMillis)
    const batch = ended.slice(0, maxRecorded)
    const now = yield* Clock.currentTimeMillis
    const { fault, outlived, refused } = yield* recordParts(deliveries, batch.map(({ outcome }) => outcome), now)
    // Where nothing can be recorded the fault is hardly the outcomes'. They wait for as long as their claims last, so
    // that what is sent in vain is bounded. One that is refused while others are not may have met such a fault's end: it
    // is tried once more.
    const all = refused.length === batch.length
    const waiting = refused.filter((outcome) => !suspects.has(outcome) && outcome.claim.claimedUntil > now)
    if (!all) for (const outcome of refused) suspects.add(outcome)
    const kept = new Set(waiting)
    ended = [...ended.slice(batch.length), ...batch.filter(({ outcome }) => kept.has(outcome))]
    for (const { outcome, place } of batch) if (!kept.has(outcome)) release(place)
    if (outlived > 0) yield* Effect.logWarning(`${outlived} webhook attempts outlived their claims`)
    const left = refused.length - kept.size
    if (left > 0) {
      const told = `${left} webhook attempts cannot be recorded and are left to their claims' expiry`
      yield* Effect.logError(told, fault)
    }
    if (all && kept.size > 0) return yield* Effect.die(fault)
    return true
  })

  const unfinished = () => places.inFlight > 0 || ended.length > 0
  const drain = Effect.suspend(() => unfinished() ? Effect.sleep(drainPollMillis) : Effect.void).pipe(
    Effect.repeat({ while: unfinished }),
    Effect.timeoutOption(drainMillis)
  )

  const claims = Layer.unwrap(Effect.gen(function*() {
    yield* Effect.addFinalizer(() =>
      Effect.andThen(drain, Effect.sync(() => {
        for (const abort of aborts.values()) abort()
      })))
    const claim = Effect.gen(function*() {
      yield* wakeClaims.close
      const now = clock.currentTimeMillisUnsafe()
      const offer = places.offer(now)
      const limit = Math.min(offer.limit, maxUnrecorded - places.inFlight - ended.length)
      const outgoing = yield* deliveries.claim({ ...offer, now, limit })
      const sentAt = clock.currentTimeMillisUnsafe()
      for (const one of outgoing) if (sentAt < one.sendBefore) send(one, sentAt)
      return outgoing.length > 0
    })
    // what is claimed is sent, also by a process that stops: nobody else may send it for a minute
    return Loop.layer("WebhookDispatcher", Effect.uninterruptible(claim), { idleMillis, wake: wakeClaims.await })
  }))

  // Closed in reverse: no more claims, attempts end, their outcomes are recorded.
  return claims.pipe(Layer.provideMerge(Layer.merge(
    Loop.layer("WebhookDispatcher records", record, { idleMillis, wake: wakeRecords.await }),
    Loop.layer("WebhookDispatcher settles", deliveries.settle, { idleMillis: settleIdleMillis })
  )))
}))

const resultOf = (outcome: Answer | ConnectorError): AttemptResult =>
  outcome instanceof ConnectorError
    ? { error: outcome.reason }
    : { status: outcome.status, answer: outcome.bodySnippet, retryAfterSeconds: outcome.retryAfterSeconds }

const ignored = () => undefined

const commonHeaders = { "content-type": "application/json", "user-agent": "card-rewards/1" }

/**
 * Records a batch; where that fails by a defect, its halves, down to single outcomes: one that can never be recorded
 * does not hold up the others. Gives those that were refused alone, with the last defect, and the number of those
 * whose claims no longer held. An expired claim may be another's by now, but nothing is lost by trying.
 */
const recordParts = Effect.fnUntraced(function*(
  deliveries: Deliveries["Service"],
  batch: ReadonlyArray<Outcome>,
  now: number
) {
  const parts = [batch]
  const refused: Array<Outcome> = []
  let outlived = 0
  let fault: unknown
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const recorded = yield* deliveries.record(part, now).pipe(
      Effect.catchDefect((defect) => Effect.sync(() => void (fault = defect)))
    )
    if (recorded !== undefined) outlived += part.length - recorded
    else if (part.length === 1) refused.push(...part)
    else {
      const middle = part.length >> 1
      parts.push(part.slice(middle), part.slice(0, middle))
    }
  }
  return { fault, outlived, refused }
})
