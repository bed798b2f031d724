import { type AttemptResult, jitterRange } from "@card-rewards/domain/Delivery"
import { recentMillis } from "@card-rewards/domain/DeliverySlots"
import { Clock, Effect, type Latch, Random } from "effect"
import { type Answer, Connector, ConnectorError, type PostInput } from "../Connector.ts"
import { observe } from "./AttemptTelemetry.ts"
import type { Consumer, Sending } from "./Consumer.ts"
import type { Consumers } from "./Consumers.ts"
import { signerOf } from "./Signing.ts"

/** Sends what the consumers have ready, whenever there are free slots. */
export interface Sender {
  /** Sends what may be sent. */
  readonly send: () => void
  /** The same, and has more read, in the next turn of the event loop. */
  readonly schedule: () => void
  /** Starts no more attempts. */
  readonly stop: () => void
  /** Aborts the attempts in flight; nothing of them is recorded, and their endpoints can be given up. */
  readonly abort: () => void
  /** Gives up an endpoint of which nothing can be recorded: another worker holds it, or it is deleted. */
  readonly lose: (consumer: Consumer) => void
}

/** The latches of the fibers that read and record: an ended attempt may be work for both. */
interface WakeUps {
  readonly reads: Latch.Latch
  readonly records: Latch.Latch
}

export const make = Effect.fnUntraced(function*(consumers: Consumers, wakeUps: WakeUps) {
  const connector = yield* Connector
  const observed = yield* observe
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const guarded = guardWith(Effect.runForkWith(yield* Effect.context()))
  let isStopped = false

  const start = (sending: Sending): void => {
    const startedNanos = clock.monotonicTimeNanosUnsafe()
    const observedEnd = guarded(() => observed(sending))
    let hasEnded = false
    const end = (result: AttemptResult): void => {
      if (hasEnded) return
      hasEnded = true
      const nowNanos = clock.monotonicTimeNanosUnsafe()
      const durationMillis = Math.round(Number(nowNanos - startedNanos) / 1e6)
      // a process that was stopped for longer than its lease says nothing about the receiver
      if (consumers.hasEnded(sending.consumer, nowNanos)) lose(sending.consumer)
      else sending.consumer.end(sending, result, durationMillis, jitterOf(random))
      schedule()
      guarded(() => observedEnd?.(result, durationMillis))
    }
    const abort = guarded(() => connector.post(requestOf(sending), (outcome) => end(resultOf(outcome))))
    // a fault of ours counts as an attempt, so that one delivery cannot be tried for ever without a trace
    if (abort === undefined) end({ error: "other" })
    else sending.abort = abort
  }

  const send = (): void => {
    if (isStopped) return
    consumers.begin(clock.currentTimeMillisUnsafe(), clock.monotonicTimeNanosUnsafe()).forEach(start)
    if (consumers.recent > 0) sendLater()
  }

  /** Attempts that end in one turn of the event loop free their slots together. */
  const schedule = deferred(setImmediate, () => {
    send()
    if (consumers.isReadDue) wakeUps.reads.openUnsafe()
    if (consumers.canRecord) wakeUps.records.openUnsafe()
  })

  // @effect-diagnostics-next-line globalTimers:off -- one at a time, outside of all fibers like the attempts
  const sendLater = deferred((run) => setTimeout(run, recentMillis), send)

  const cancel = (sending: Sending): void => {
    sending.abort?.()
    sending.consumer.drop(sending)
  }

  const abort = (consumer: Consumer) => consumer.sendings.slice().forEach(cancel)

  const lose = (consumer: Consumer): void => {
    consumers.delete(consumer)
    abort(consumer)
    // what it used of the process's limits is free for other cells, also where this one has no endpoint left
    schedule()
  }

  return {
    send,
    schedule,
    lose,
    stop: () => void (isStopped = true),
    abort: () => [...consumers].forEach(({ consumer }) => abort(consumer))
  } satisfies Sender
})

/** Runs something later, once however often it is called before that. */
const deferred = (defer: (run: () => void) => void, run: () => void) => {
  let isPending = false
  return (): void => {
    if (isPending) return
    isPending = true
    defer(() => {
      isPending = false
      run()
    })
  }
}

/** Runs a part of an attempt; undefined where it throws: other attempts go on. */
const guardWith = (fork: (effect: Effect.Effect<void>) => unknown) => <A>(run: () => A): A | undefined => {
  try {
    return run()
  } catch (defect) {
    fork(Effect.logError("A webhook attempt met a defect", defect))
    return undefined
  }
}

const requestOf = ({ item, secrets, startedAt, url }: Sending): PostInput => {
  const { attempts, eventId } = item
  // encoded once, for the signatures and for the request
  const body = Buffer.from(item.body)
  const attempt = { eventId, body, timestampSeconds: Math.floor(startedAt / 1_000), attempt: attempts + 1 }
  const signed = signerOf(secrets)(attempt)
  return { url, body, headers: { ...signed, "content-type": "application/json", "user-agent": "card-rewards/1" } }
}

const jitterOf = (random: Random.Random): number =>
  jitterRange.minimum + random.nextDoubleUnsafe() * (jitterRange.maximum - jitterRange.minimum)

const resultOf = (outcome: Answer | ConnectorError): AttemptResult =>
  outcome instanceof ConnectorError
    ? { error: outcome.reason }
    : { status: outcome.status, answer: outcome.bodySnippet, retryAfterSeconds: outcome.retryAfterSeconds }
