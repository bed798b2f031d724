import {
  afterAttempt,
  type AfterAttempt,
  type Breaker,
  breakerAfter,
  isSuccess,
  jitterRange,
  type RetryDelays
} from "@card-rewards/domain/Delivery"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { Effect, Random } from "effect"
import { SqlClient } from "effect/sql"
import { columns, transaction, value, withinRequestDeadline } from "../Database.ts"
import { equalWithoutIndex, perRow } from "../Database/PlannerHints.ts"
import type { Outcome } from "../Deliveries.ts"

/** How much of an answer is kept, in characters; the connector reads no more either. */
const maxAnswerLength = 4_096

interface EndpointName {
  readonly integratorId: string
  readonly generation: number
}

interface Endpoint extends EndpointName, Breaker {
  readonly url: string
}

interface Settled {
  readonly outcome: Outcome
  readonly after: AfterAttempt
}

/** What became of outcomes: `held` claims still held, and are stored. `busy` are not, another has their endpoints' locks. */
export interface Recorded {
  readonly held: number
  readonly busy: ReadonlyArray<Outcome>
}

/**
 * Stores attempts with what follows from them. Successes at endpoints that did not fail before change no breaker, and are
 * stored by one statement; whatever else there is needs the endpoints' locks, so does an endpoint whose deliveries are being
 * changed by another transaction (see `Settle.ts`). Nobody waits for a lock here: that would hold up all endpoints.
 */
export const record = Effect.fnUntraced(function*(
  outcomes: ReadonlyArray<Outcome>,
  delays: RetryDelays,
  now: number
): Effect.fn.Return<Recorded, Unavailable, SqlClient.SqlClient> {
  const failed = new Set(outcomes.filter(({ result }) => !isSuccess(result)).map(({ claim }) => endpointKey(claim)))
  let plain = yield* storePlain(outcomes.filter(({ claim }) => !failed.has(endpointKey(claim))), now)
  if (plain === undefined) {
    // one of many endpoints is no reason to take the others' locks
    for (const endpoint of yield* withinRequestDeadline(selectUnsound(outcomes))) failed.add(endpointKey(endpoint))
    plain = yield* storePlain(outcomes.filter(({ claim }) => !failed.has(endpointKey(claim))), now)
  }
  const held = plain ?? new Set()
  const rest = outcomes.filter((outcome) => !held.has(outcome))
  if (rest.length === 0) return { held: held.size, busy: [] }
  const recorded = yield* transaction(recordIn(rest, delays, now))
  return { held: held.size + recorded.held, busy: recorded.busy }
})

/** Successes; gives those whose claims held, or nothing where an endpoint among theirs is not {@link selectUnsound sound}. */
const storePlain = (outcomes: ReadonlyArray<Outcome>, now: number) =>
  outcomes.length === 0
    ? Effect.succeed(new Set<Outcome>())
    : Effect.map(
      withinRequestDeadline(
        store(outcomes.map((outcome) => ({ outcome, after: { state: "delivered" } })), now, endpointsOf(outcomes))
      ),
      (held) => held.size === 0 ? undefined : new Set(outcomes.filter((_, place) => held.has(place)))
    )

const selectEndpoints = (sql: SqlClient.SqlClient, outcomes: ReadonlyArray<Outcome>) => {
  const named = endpointsOf(outcomes)
  return sql<Endpoint>`SELECT e.integrator_id, e.generation, e.url, e.failures, e.probe_at FROM webhook_endpoints e
    JOIN unnest(${columns.text(named.map((one) => one.integratorId))},
      ${columns.int4(named.map((one) => one.generation))}) AS t(integrator_id, generation)
      USING (integrator_id, generation)`
}

/** Endpoints that failed last, or whose deliveries are being changed. */
const selectUnsound = Effect.fnUntraced(function*(outcomes: ReadonlyArray<Outcome>) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Endpoint>`${selectEndpoints(sql, outcomes)} WHERE e.failures > 0 OR e.unsettled`
})

/** Locks endpoints, then deliveries. */
const recordIn = Effect.fnUntraced(function*(outcomes: ReadonlyArray<Outcome>, delays: RetryDelays, now: number) {
  const { busy, endpoints } = yield* lockEndpoints(outcomes)
  const random = yield* Random.Random
  const settled = outcomes.filter(({ claim }) => !busy.has(endpointKey(claim)))
    .map((outcome) => settle(outcome, endpoints.get(endpointKey(outcome.claim)), delays, random))
  const held = yield* store(settled, now)
  const recorded = settled.filter((_, place) => held.has(place))
  yield* updateBreakers(recorded, endpoints, delays)
  return { held: recorded.length, busy: outcomes.filter(({ claim }) => busy.has(endpointKey(claim))) }
})

const endpointKey = (of: EndpointName) => `${of.generation}/${of.integratorId}`

const endpointsOf = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<EndpointName> =>
  [...new Map(outcomes.map(({ claim }) => [endpointKey(claim), claim])).values()]

/** Locks what nobody else has locked; the others are busy. */
const lockEndpoints = Effect.fnUntraced(function*(outcomes: ReadonlyArray<Outcome>) {
  const sql = yield* SqlClient.SqlClient
  const select = selectEndpoints(sql, outcomes)
  const locked = yield* sql<Endpoint>`${select} FOR NO KEY UPDATE OF e SKIP LOCKED`
  const endpoints = new Map(locked.map((row) => [endpointKey(row), row]))
  const all = locked.length === endpointsOf(outcomes).length ? locked : yield* sql<Endpoint>`${select}`
  return { endpoints, busy: new Set(all.map(endpointKey).filter((key) => !endpoints.has(key))) }
})

/** What failed at an address that the endpoint no longer has is due at the new one. */
const settle = (
  outcome: Outcome,
  endpoint: Endpoint | undefined,
  delays: RetryDelays,
  random: Random.Random
): Settled => {
  const jitter = jitterRange.minimum + random.nextDoubleUnsafe() * (jitterRange.maximum - jitterRange.minimum)
  const endedAt = outcome.startedAt + outcome.durationMillis
  const after = afterAttempt({ delays, attempt: outcome.claim.attempt, result: outcome.result, endedAt, jitter })
  const moved = endpoint !== undefined && endpoint.url !== outcome.url && after.state === "pending"
  return { outcome, after: moved ? { state: "pending", nextAttemptAt: endedAt } : after }
}

/**
 * Stores what follows for each delivery whose claim still holds, with the attempt, and makes due what was set back behind one
 * that has ended (see `Claim.ts`). Gives the places of those in the list; of none, where one of `sound` has failed last or is
 * unsettled.
 */
const store = Effect.fnUntraced(function*(
  settled: ReadonlyArray<Settled>,
  now: number,
  sound: ReadonlyArray<EndpointName> = []
) {
  const sql = yield* SqlClient.SqlClient
  const outcomes = settled.map(({ outcome }) => outcome)
  const claims = outcomes.map(({ claim }) => claim)
  const { int4, int8, text, timestamptz } = columns
  const rows = yield* sql<{ readonly place: number }>`
    WITH recorded AS (
      UPDATE deliveries d SET state = t.state, next_attempt_at = t.next_attempt_at, attempts = t.attempt, claimed_until = NULL
      FROM unnest(${int4(claims.map((_, place) => place))}, ${text(claims.map((one) => one.integratorId))},
        ${int8(claims.map((one) => one.event))}, ${int4(claims.map((one) => one.round))},
        ${timestamptz(claims.map((one) => one.claimedUntil))}, ${int4(claims.map((one) => one.attempt))},
        ${text(settled.map(({ after }) => after.state))},
        ${timestamptz(settled.map(({ after }) => after.state === "pending" ? after.nextAttemptAt : null))},
        ${timestamptz(outcomes.map((one) => one.startedAt))}, ${int4(outcomes.map((one) => one.durationMillis))},
        ${int4(outcomes.map(({ result }) => "status" in result ? result.status : null))},
        ${text(outcomes.map(({ result }) => "error" in result ? result.error : null))},
        ${text(outcomes.map(({ result }) => "answer" in result ? result.answer.slice(0, maxAnswerLength) : null))}
      ) AS t(place, integrator_id, event, round, claimed_until, attempt, state, next_attempt_at,
        at, duration_millis, status, error, answer)
      WHERE d.integrator_id = t.integrator_id AND d.event = t.event AND d.round = t.round
        AND d.claimed_until = t.claimed_until
        AND (SELECT 1 FROM unnest(${text(sound.map((one) => one.integratorId))}, ${int4(sound.map((one) => one.generation))})
          AS k(integrator_id, generation) CROSS JOIN LATERAL (
            SELECT FROM webhook_endpoints e WHERE e.integrator_id = k.integrator_id AND e.generation = k.generation
              AND (e.failures > 0 OR e.unsettled) ${perRow}
          ) e LIMIT 1) IS NULL
      RETURNING t.*, d.reward, d.generation
    ), attempted AS (
      INSERT INTO delivery_attempts (integrator_id, event, round, attempt, at, duration_millis, status, error, answer)
      SELECT integrator_id, event, round, attempt, at, duration_millis, status, error, answer FROM recorded
    ), woken AS (
      UPDATE deliveries d SET next_attempt_at = ${value.timestamptz(now)}
      FROM recorded r CROSS JOIN LATERAL (
        -- none of those that are recorded: what is set back has no claim
        SELECT d.event, d.round FROM deliveries d
        WHERE d.integrator_id = r.integrator_id AND d.reward = r.reward AND d.next_attempt_at IS NOT NULL
          AND d.next_attempt_at - ${value.timestamptz(now)} > interval '0'
          AND ${equalWithoutIndex("d.generation", "r.generation")}
          AND d.attempts = 0 AND d.claimed_until IS NULL ${perRow}
      ) f
      WHERE r.state <> 'pending' AND d.integrator_id = r.integrator_id AND d.event = f.event AND d.round = f.round
        AND d.next_attempt_at - ${value.timestamptz(now)} > interval '0' AND d.attempts = 0
    )
    SELECT place FROM recorded`
  return new Set(rows.map(({ place }) => place))
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
