import {
  afterAttempt,
  type AfterAttempt,
  type Breaker,
  breakerAfter,
  isSuccess,
  jitterRange,
  type RetryDelays
} from "@card-rewards/domain/Delivery"
import { Effect, Random } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import type { Claim, Outcome } from "../Deliveries.ts"

/** How much of an answer is kept, in characters; the connector reads no more either. */
const maxAnswerLength = 4_096

interface Endpoint extends Breaker {
  readonly integratorId: string
  readonly generation: number
  readonly url: string
}

interface Settled {
  readonly outcome: Outcome
  readonly after: AfterAttempt
}

/** Records inside the caller's transaction. Locks endpoints, then deliveries. Gives the number of claims that held. */
export const recordIn = Effect.fnUntraced(function*(
  outcomes: ReadonlyArray<Outcome>,
  delays: RetryDelays,
  now: number
) {
  const endpoints = yield* lockEndpoints(outcomes)
  const settled = yield* Effect.forEach(outcomes, (outcome) =>
    settle(outcome, endpoints.get(endpointKey(outcome.claim)), delays))
  const held = yield* updateDeliveries(settled)
  const recorded = settled.filter(({ outcome }) => held.has(deliveryKey(outcome.claim)))
  if (recorded.length === 0) return 0
  yield* insertAttempts(recorded)
  yield* updateBreakers(recorded, endpoints, delays)
  yield* wakeFollowers(recorded, now)
  return recorded.length
})

const endpointKey = (of: Pick<Endpoint, "integratorId" | "generation">) => `${of.generation}/${of.integratorId}`
const deliveryKey = (of: Pick<Claim, "integratorId" | "event" | "round">) =>
  `${of.event}/${of.round}/${of.integratorId}`

const lockEndpoints = Effect.fnUntraced(function*(outcomes: ReadonlyArray<Outcome>) {
  const sql = yield* SqlClient.SqlClient
  const named = [...new Map(outcomes.map(({ claim }) => [endpointKey(claim), claim])).values()]
  const rows = yield* sql<Endpoint>`
    SELECT e.integrator_id, e.generation, e.url, e.failures, e.probe_at FROM webhook_endpoints e
    JOIN unnest(${columns.text(named.map((one) => one.integratorId))},
      ${columns.int4(named.map((one) => one.generation))}) AS t(integrator_id, generation)
      USING (integrator_id, generation)
    ORDER BY e.integrator_id, e.generation FOR NO KEY UPDATE OF e`
  return new Map(rows.map((row) => [endpointKey(row), row]))
})

/** What failed at an address that the endpoint no longer has is due at the new one. */
const settle = Effect.fnUntraced(function*(outcome: Outcome, endpoint: Endpoint | undefined, delays: RetryDelays) {
  const jitter = yield* Random.nextBetween(jitterRange.minimum, jitterRange.maximum)
  const endedAt = outcome.startedAt + outcome.durationMillis
  const after = afterAttempt({ delays, attempt: outcome.claim.attempt, result: outcome.result, endedAt, jitter })
  const moved = endpoint !== undefined && endpoint.url !== outcome.url && after.state === "pending"
  const settled: Settled = { outcome, after: moved ? { state: "pending", nextAttemptAt: endedAt } : after }
  return settled
})

const updateDeliveries = Effect.fnUntraced(function*(settled: ReadonlyArray<Settled>) {
  const sql = yield* SqlClient.SqlClient
  const claims = settled.map(({ outcome }) => outcome.claim)
  const rows = yield* sql<Pick<Claim, "integratorId" | "event" | "round">>`
    UPDATE deliveries d SET state = t.state, next_attempt_at = t.next_attempt_at, attempts = t.attempt,
      claimed_until = NULL
    FROM unnest(${columns.text(claims.map((one) => one.integratorId))}, ${columns.int8(claims.map((one) => one.event))},
      ${columns.int4(claims.map((one) => one.round))}, ${columns.timestamptz(claims.map((one) => one.claimedUntil))},
      ${columns.int4(claims.map((one) => one.attempt))}, ${columns.text(settled.map(({ after }) => after.state))},
      ${columns.timestamptz(settled.map(({ after }) => after.state === "pending" ? after.nextAttemptAt : null))}
    ) AS t(integrator_id, event, round, claimed_until, attempt, state, next_attempt_at)
    WHERE d.integrator_id = t.integrator_id AND d.event = t.event AND d.round = t.round
      AND d.claimed_until = t.claimed_until AND d.state = 'pending'
    RETURNING d.integrator_id, d.event, d.round`
  return new Set(rows.map(deliveryKey))
})

const insertAttempts = Effect.fnUntraced(function*(recorded: ReadonlyArray<Settled>) {
  const sql = yield* SqlClient.SqlClient
  const outcomes = recorded.map(({ outcome }) => outcome)
  const claims = outcomes.map(({ claim }) => claim)
  const { int4, int8, text, timestamptz } = columns
  yield* sql`
    INSERT INTO delivery_attempts (integrator_id, event, round, attempt, at, duration_millis, status, error, answer)
    SELECT * FROM unnest(${text(claims.map((one) => one.integratorId))}, ${int8(claims.map((one) => one.event))},
      ${int4(claims.map((one) => one.round))}, ${int4(claims.map((one) => one.attempt))},
      ${timestamptz(outcomes.map((one) => one.startedAt))}, ${int4(outcomes.map((one) => one.durationMillis))},
      ${int4(outcomes.map(({ result }) => "status" in result ? result.status : null))},
      ${text(outcomes.map(({ result }) => "error" in result ? result.error : null))},
      ${text(outcomes.map(({ result }) => "answer" in result ? result.answer.slice(0, maxAnswerLength) : null))})`
})

const updateBreakers = Effect.fnUntraced(function*(
  recorded: ReadonlyArray<Settled>,
  endpoints: ReadonlyMap<string, Endpoint>,
  delays: RetryDelays
) {
  const sql = yield* SqlClient.SqlClient
  const breakers = new Map<string, Endpoint>()
  for (const { outcome } of recorded) {
    const key = endpointKey(outcome.claim)
    const before = breakers.get(key) ?? endpoints.get(key)
    if (before === undefined || before.url !== outcome.url) continue
    const attempt = {
      success: isSuccess(outcome.result),
      probe: outcome.claim.probe,
      endedAt: outcome.startedAt + outcome.durationMillis
    }
    breakers.set(key, { ...before, ...breakerAfter(before, attempt, delays) })
  }
  const changed = [...breakers].filter(([key, after]) => {
    const before = endpoints.get(key)
    return before?.failures !== after.failures || before.probeAt !== after.probeAt
  }).map(([, after]) => after)
  if (changed.length === 0) return
  yield* sql`
    UPDATE webhook_endpoints e SET failures = t.failures, probe_at = t.probe_at
    FROM unnest(${columns.text(changed.map((one) => one.integratorId))},
      ${columns.int4(changed.map((one) => one.generation))}, ${columns.int4(changed.map((one) => one.failures))},
      ${columns.timestamptz(changed.map((one) => one.probeAt))})
      AS t(integrator_id, generation, failures, probe_at)
    WHERE e.integrator_id = t.integrator_id AND e.generation = t.generation`
})

/** What waited for a delivery of its reward that has ended now is due, if it was set back (see `Claim.ts`). */
const wakeFollowers = Effect.fnUntraced(function*(recorded: ReadonlyArray<Settled>, now: number) {
  const ended = recorded.flatMap(({ after, outcome }) =>
    after.state === "pending" || outcome.claim.reward === null ? [] : [outcome.claim])
  if (ended.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE deliveries d SET next_attempt_at = ${value.timestamptz(now)}
    FROM unnest(${columns.text(ended.map((one) => one.integratorId))}, ${columns.int8(ended.map((one) => one.reward))},
      ${columns.int4(ended.map((one) => one.generation))}) AS t(integrator_id, reward, generation)
    WHERE d.integrator_id = t.integrator_id AND d.reward = t.reward AND d.generation = t.generation
      AND d.state = 'pending' AND d.attempts = 0
      -- written so that the index of what is due does not fit: each is found by its reward
      AND coalesce(d.next_attempt_at, '-infinity') > ${value.timestamptz(now)}`
})
