import { type Claim, Deliveries, type Outcome, type Outgoing } from "@card-rewards/core/Deliveries"
import { maxInFlight, maxInFlightPerEndpoint } from "@card-rewards/domain/Delivery"
import { sign } from "@card-rewards/domain/WebhookSignature"
import { NodeCrypto } from "@effect/platform-node"
import { Clock, Effect, FiberSet, Latch, Layer } from "effect"
import { Connector } from "./Connector.ts"
import * as Loop from "./Loop.ts"

/** Pause after a look that found nothing due, unless an attempt ends before. */
const idleMillis = 150
/** Outcomes recorded by one transaction at most; attempts that end meanwhile go into the next one. */
const maxRecorded = 256
/** How long a stopping process waits for its attempts; what is not finished then is left for its claim to expire. */
const drainMillis = 8_000
const drainPollMillis = 10

/**
 * The fibers that deliver events (contract, section 6; decisions, section 7): one claims and sends, one records. At
 * most 16 requests are in flight per endpoint and 512 in all, from the claim until the outcome is recorded.
 */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const deliveries = yield* Deliveries
  const connector = yield* Connector
  const inFlight = new Map<string, number>()
  let total = 0
  let ended: Array<Outcome> = []
  const wakeClaims = yield* Latch.make()
  const wakeRecords = yield* Latch.make()

  const take = ({ integratorId }: Claim): void => {
    total++
    inFlight.set(integratorId, (inFlight.get(integratorId) ?? 0) + 1)
  }
  const release = ({ integratorId }: Claim): void => {
    total--
    const left = (inFlight.get(integratorId) ?? 0) - 1
    if (left > 0) inFlight.set(integratorId, left)
    else inFlight.delete(integratorId)
    wakeClaims.openUnsafe()
  }

  const send = Effect.fn("WebhookDispatcher.send")(function*(outgoing: Outgoing) {
    const { body, claim, eventId, secrets, url } = outgoing
    const startedAt = yield* Clock.currentTimeMillis
    const timestampSeconds = Math.floor(startedAt / 1000)
    const signature = yield* sign({ secrets, eventId, body, timestampSeconds, attempt: claim.attempt })
    const begun = yield* Clock.monotonicTimeNanos
    const result = yield* connector.post({ url, body, headers: { ...commonHeaders, ...signature } }).pipe(
      Effect.map(({ bodySnippet: answer, retryAfterSeconds, status }) => ({ status, answer, retryAfterSeconds })),
      Effect.catch((error) => Effect.succeed({ error: error.reason })),
      // A fault of ours counts as an attempt, so that one delivery cannot be tried for ever without a trace.
      Effect.catchDefect((defect) =>
        Effect.as(Effect.logError("A webhook attempt failed by a defect", defect), { error: "other" })
      )
    )
    const durationMillis = Math.round(Number((yield* Clock.monotonicTimeNanos) - begun) / 1e6)
    ended.push({ claim, url, startedAt, durationMillis, result })
    wakeRecords.openUnsafe()
  })

  const record = Effect.gen(function*() {
    yield* wakeRecords.close
    const batch = ended.slice(0, maxRecorded)
    if (batch.length === 0) return false
    const now = yield* Clock.currentTimeMillis
    const { fault, outlived, refused } = yield* recordParts(deliveries, batch, now)
    // Where nothing can be recorded the fault is hardly the outcomes'. They wait for as long as their claims last, so
    // that what is sent in vain is bounded by the slots that they hold.
    const kept = refused.length === batch.length ? refused.filter(({ claim }) => claim.claimedUntil > now) : []
    ended = [...ended.slice(batch.length), ...kept]
    for (const outcome of batch) if (!kept.includes(outcome)) release(outcome.claim)
    if (outlived > 0) yield* Effect.logWarning(`${outlived} webhook attempts outlived their claims`)
    if (kept.length > 0) return yield* Effect.die(fault)
    if (refused.length > 0) {
      const left = `${refused.length} webhook attempts cannot be recorded and are left to their claims' expiry`
      yield* Effect.logError(left, fault)
    }
    return true
  })

  const drain = Effect.suspend(() => total === 0 ? Effect.void : Effect.sleep(drainPollMillis)).pipe(
    Effect.repeat({ while: () => total > 0 }),
    Effect.timeoutOption(drainMillis)
  )

  const deliver = Layer.unwrap(Effect.gen(function*() {
    const fibers = yield* FiberSet.make()
    yield* Effect.addFinalizer(() => drain)
    const claimAndSend = Effect.gen(function*() {
      yield* wakeClaims.close
      const now = yield* Clock.currentTimeMillis
      const limit = maxInFlight - total
      const claims = yield* deliveries.claim({ now, limit, perEndpoint: maxInFlightPerEndpoint, inFlight })
      if (claims.length === 0) return false
      const outgoing = yield* deliveries.stillClaimed(claims, yield* Clock.currentTimeMillis)
      for (const one of outgoing) {
        take(one.claim)
        yield* FiberSet.run(fibers, send(one))
      }
      return true
    })
    return Loop.layer("WebhookDispatcher", claimAndSend, { idleMillis, wake: wakeClaims.await })
  }))

  // Closed in reverse: no more claims, attempts end, their outcomes are recorded, the recorder stops.
  return Layer.provideMerge(
    deliver,
    Loop.layer("WebhookDispatcher records", record, { idleMillis, wake: wakeRecords.await })
  )
})).pipe(Layer.provide(NodeCrypto.layerMac))

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
