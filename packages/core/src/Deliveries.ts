import { type AttemptResult, isSuccess, type RetryDelays } from "@card-rewards/domain/Delivery"
import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Cache, Context, Effect, Exit, Layer } from "effect"
import type { SqlClient } from "effect/sql"
import { transaction } from "./Database.ts"
import { claim as claimDue, noLook } from "./Deliveries/Claim.ts"
import { record as recordOutcomes, type Recorded } from "./Deliveries/Record.ts"
import { settleIn } from "./Deliveries/Settle.ts"
import { readSecrets } from "./Deliveries/SigningSecrets.ts"
import * as Tracing from "./Tracing.ts"
import { WebhookEndpoints } from "./WebhookEndpoints.ts"

/** How long a claim on a delivery lasts (decisions, section 7). */
const defaultClaimMillis = 60_000

/** How many endpoints' secrets a process keeps decrypted, and for how long. */
const maxCachedSecrets = 10_000
const secretsTimeToLive = "1 minute"

/** An attempt that begins when its claim ends sooner than this might outlast it. */
const minClaimLeftMillis = 20_000

/** One attempt that this process may make. `claimedUntil` (milliseconds) tells the claim apart from any other. */
export interface Claim {
  readonly integratorId: IntegratorId
  readonly event: bigint
  readonly round: number
  readonly generation: number
  readonly reward: bigint | null
  /** The number of the attempt, from 1. */
  readonly attempt: number
  readonly claimedUntil: number
  /** The one attempt that an open breaker lets through. */
  readonly probe: boolean
  /** Its endpoint is among the slow ones. */
  readonly slow: boolean
  /** The trace that made the delivery. */
  readonly traceparent: string | null
}

/** A claim with all that is needed to send it. */
export interface Outgoing {
  readonly claim: Claim
  /** Its attempt may begin before this (milliseconds); after it the claim is left to expire. */
  readonly sendBefore: number
  readonly url: string
  readonly eventId: string
  /** Exactly these bytes, on every attempt. */
  readonly body: string
  /** Valid now, newest first. */
  readonly secrets: readonly [WebhookSecret, ...ReadonlyArray<WebhookSecret>]
}

/** How an attempt went; times are real. */
export interface Outcome {
  readonly claim: Claim
  /** Where it was sent: an endpoint whose URL has changed meanwhile does not answer for it. */
  readonly url: string
  readonly startedAt: number
  readonly durationMillis: number
  readonly result: AttemptResult
}

/** Limits of one claim. */
export interface ClaimOptions {
  /** Milliseconds. */
  readonly now: number
  readonly limit: number
  readonly perEndpoint: number
  /** What this process has in flight, by integrator. */
  readonly inFlight: ReadonlyMap<string, number>
  /** Integrators whose endpoints answer late or not at all; what failed last counts among them anyway. */
  readonly slow: ReadonlySet<string>
  /** How many of the claims may be theirs. */
  readonly slowLimit: number
}

/**
 * The way out of stored events (decisions, section 7): work is claimed, sent by the caller at once, and recorded. Any
 * number of processes may do so at the same time. A claim whose holder is gone expires after 60 s.
 */
export class Deliveries extends Context.Service<Deliveries, {
  /**
   * Claims due deliveries, endpoints in turn: of each the first before the second of any. Deliveries of one reward are
   * claimed one at a time in order of their events. An open breaker gives one probe at a time. A deleted endpoint gets
   * nothing, nor does one whose secrets nobody can read.
   */
  readonly claim: (options: ClaimOptions) => Effect.Effect<ReadonlyArray<Outgoing>, Unavailable>
  /**
   * Stores attempts with what follows from them; each wholly or not at all. Outcomes of claims that no longer hold
   * change nothing; those that are busy may be given again. `now` is in milliseconds.
   */
  readonly record: (outcomes: ReadonlyArray<Outcome>, now: number) => Effect.Effect<Recorded, Unavailable>
  /**
   * Carries the change of one endpoint over to a batch of its pending deliveries: of a deleted one they are cancelled,
   * of one with a changed URL they become due. Gives whether there was one.
   */
  readonly settle: Effect.Effect<boolean, Unavailable>
}>()("@card-rewards/core/Deliveries") {
  /** `claimMillis` is for tests of claims that expire. */
  static readonly layer = (options: {
    readonly retryDelays: RetryDelays
    readonly claimMillis?: number
  }): Layer.Layer<Deliveries, never, SqlClient.SqlClient | WebhookEndpoints> => Layer.effect(Deliveries, make(options))
}

const make = Effect.fnUntraced(function*(
  { claimMillis = defaultClaimMillis, retryDelays }: {
    readonly retryDelays: RetryDelays
    readonly claimMillis?: number
  }
) {
  const secrets = yield* Cache.makeWith(readSecrets(yield* WebhookEndpoints), {
    capacity: maxCachedSecrets,
    // a database that was away for a moment is not remembered
    timeToLive: (exit) => Exit.isSuccess(exit) ? secretsTimeToLive : 0
  })
  const services = yield* Effect.context<SqlClient.SqlClient>()
  // Endpoints are served in turn: each look goes on behind the last endpoint of the one before.
  let look = noLook

  const claim = Effect.fnUntraced(function*(options: ClaimOptions) {
    if (options.limit <= 0) return []
    const claimedUntil = options.now + claimMillis
    const sendBefore = claimedUntil - Math.min(minClaimLeftMillis, claimMillis / 3)
    const claimed = yield* claimDue(look, secrets, options, { claimedUntil, sendBefore })
    look = claimed.look
    return claimed.outgoing
    // untraced: it looks again and again, and each attempt is traced for itself
  }, Effect.withTracerEnabled(false), Effect.provideContext(services))

  const record = Effect.fn("Deliveries.record")(function*(outcomes: ReadonlyArray<Outcome>, now: number) {
    if (outcomes.length === 0) return { held: 0, busy: [] }
    const recorded = yield* recordOutcomes(outcomes, retryDelays, now)
    // the next claim looks at the breakers
    if (!outcomes.every(({ result }) => isSuccess(result))) look = { ...look, seen: undefined }
    return recorded
  }, Effect.provideContext(services))

  const settle = transaction(settleIn).pipe(Tracing.deferSpan("Deliveries.settle"), Effect.provideContext(services))

  return Deliveries.of({ claim, record, settle })
})
