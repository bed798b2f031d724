import type { AttemptResult, RetryDelays } from "@card-rewards/domain/Delivery"
import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Context, Effect, Layer } from "effect"
import type { SqlClient } from "effect/sql"
import { transaction } from "./Database.ts"
import { claimIn, noCursor } from "./Deliveries/Claim.ts"
import { outgoingIn } from "./Deliveries/Outgoing.ts"
import { recordIn } from "./Deliveries/Record.ts"
import type { WebhookEndpoints } from "./WebhookEndpoints.ts"

/** How long a claim on a delivery lasts (decisions, section 7). */
export const claimMillis = 60_000

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
}

/** A claim that still holds, with all that is needed to send it. */
export interface Outgoing {
  readonly claim: Claim
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
}

/**
 * The way out of stored events (decisions, section 7): work is claimed, checked, sent by the caller and recorded. Any
 * number of processes may do so at once. A claim whose holder is gone expires after {@link claimMillis}.
 */
export class Deliveries extends Context.Service<Deliveries, {
  /**
   * Claims due deliveries, endpoints in turn: of each the first before the second of any. Deliveries of one reward are
   * claimed one at a time in order of their events. An open breaker gives one probe at a time.
   */
  readonly claim: (options: ClaimOptions) => Effect.Effect<ReadonlyArray<Claim>, Unavailable>
  /**
   * Those of the claims that still hold, as they are to be sent now: endpoint not deleted, its present URL and secrets,
   * delivery pending and claimed by this very claim.
   */
  readonly stillClaimed: (claims: ReadonlyArray<Claim>, now: number) => Effect.Effect<ReadonlyArray<Outgoing>, Unavailable>
  /**
   * Stores attempts with what follows from them, all or nothing. Outcomes of claims that no longer hold change nothing;
   * gives the number of those that did. `now` is in milliseconds.
   */
  readonly record: (outcomes: ReadonlyArray<Outcome>, now: number) => Effect.Effect<number, Unavailable>
}>()("@card-rewards/core/Deliveries") {
  static readonly layer = (options: {
    readonly retryDelays: RetryDelays
  }): Layer.Layer<Deliveries, never, SqlClient.SqlClient | WebhookEndpoints> => Layer.effect(Deliveries, make(options))
}

const make = Effect.fnUntraced(function*({ retryDelays }: { readonly retryDelays: RetryDelays }) {
  const services = yield* Effect.context<SqlClient.SqlClient | WebhookEndpoints>()
  // Endpoints are served in turn: each look goes on behind the last endpoint of the one before.
  let cursor = noCursor

  const claim = Effect.fn("Deliveries.claim")(function*(options: ClaimOptions) {
    if (options.limit <= 0) return []
    const claimed = yield* transaction(claimIn(cursor, options, options.now + claimMillis))
    cursor = claimed.cursor
    return claimed.claims
  }, Effect.provideContext(services))

  const stillClaimed = Effect.fn("Deliveries.stillClaimed")(function*(claims: ReadonlyArray<Claim>, now: number) {
    return claims.length === 0 ? [] : yield* outgoingIn(claims, now)
  }, Effect.provideContext(services))

  const record = Effect.fn("Deliveries.record")(function*(outcomes: ReadonlyArray<Outcome>, now: number) {
    return outcomes.length === 0 ? 0 : yield* transaction(recordIn(outcomes, retryDelays, now))
  }, Effect.provideContext(services))

  return Deliveries.of({ claim, stillClaimed, record })
})
