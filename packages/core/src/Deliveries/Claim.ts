import { allowance, type Breaker, shareSlots } from "@card-rewards/domain/Delivery"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Array, Cache, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, transaction, value, withinRequestDeadline } from "../Database.ts"
import { equalWithoutIndex, perRow } from "../Database/PlannerHints.ts"
import type { Claim, ClaimOptions, Outgoing } from "../Deliveries.ts"
import type { Secrets, SecretsKey } from "./SigningSecrets.ts"

/** Before every integrator. */
const noCursor = ""
/** For so long a look is good for further claims, as long as each endpoint has more due than it is given places. */
const lookMillis = 250

/**
 * How many integrators with pending deliveries one look visits, and how many blocked deliveries of each it sets back.
 */
const endpointsPerLook = 256
const blockedPerLook = 200

/** A delivery behind another one of its reward looks again when that one is due, within these limits. */
const minSetBackMillis = 1_000
const maxSetBackMillis = 600_000

/** How many endpoints' secrets are read at the same time. */
const secretReads = 4

/** An integrator with something pending: since when, as what event, and to which endpoint, if it has one. */
interface Seen extends Breaker {
  readonly integratorId: IntegratorId
  readonly dueFrom: number
  readonly eventFrom: bigint
  readonly generation: number | null
  readonly rotation: number | null
  readonly expiresAt: number | null
}

/** What one claim tells the next: where its look begins, what it need not look for again, and whose blocked ones to set back. */
export interface Look {
  readonly cursor: string
  readonly starved: ReadonlyArray<Turn>
  readonly seen?: { readonly at: number; readonly all: ReadonlyArray<Seen> } | undefined
}

/** Of a process that has not looked yet. */
export const noLook: Look = { cursor: noCursor, starved: [] }

interface Turn extends SecretsKey, Pick<Seen, "dueFrom" | "eventFrom"> {
  readonly attempts: number
  readonly probe: boolean
  readonly inFlight: number
  readonly slow: boolean
}

interface SigningTurn extends Turn {
  readonly secrets: Outgoing["secrets"]
}

type Taken = Omit<Claim, "claimedUntil" | "probe" | "slow"> & Pick<Outgoing, "url" | "eventId" | "body">

/**
 * Claims what the caller may send. Conditions are written so that one index fits (see deliveries_due in the schema):
 * generations, by which an endpoint's deliveries are listed, are compared by their difference.
 */
export const claim = Effect.fnUntraced(function*(
  last: Look,
  secrets: Secrets,
  options: ClaimOptions,
  { claimedUntil, sendBefore }: { readonly claimedUntil: number; readonly sendBefore: number }
) {
  // not at the end of the claim before: what was claimed is sent at once
  if (last.starved.length > 0) {
    yield* Effect.catchDefect(
      withinRequestDeadline(setBackBlocked(last.starved, options.now)),
      (defect) => Effect.logWarning(defect)
    )
  }
  const seen = isGood(last.seen, options)
    ? last.seen
    : { at: options.now, all: yield* withinRequestDeadline(selectTurns(last.cursor, options.now)) }
  const visited = seen.all.flatMap(({ integratorId, ...breaker }) => {
    if (breaker.generation === null) return []
    const inFlight = options.inFlight.get(integratorId) ?? 0
    const slow = breaker.failures > 0 || options.slow.has(integratorId)
    if (slow && options.slowLimit <= 0) return []
    const { dueFrom, eventFrom, expiresAt, generation, rotation } = breaker
    const allowed = allowance(breaker, { ...options, inFlight })
    return [{ integratorId, generation, rotation, expiresAt, dueFrom, eventFrom, inFlight, slow, ...allowed }]
  }).filter(({ attempts }) => attempts > 0).slice(0, options.limit)
  const partly = seen.all.length < endpointsPerLook ? undefined : seen.all.at(-1)
  const cursor = (visited.length === options.limit ? visited.at(-1) : partly)?.integratorId ?? noCursor
  const shared = yield* signing(shareSlots(visited, options), secrets)
  // without a probe it is one statement, which needs no transaction
  const { found, taken, turns } = yield* shared.some(({ probe }) => probe)
    ? transaction(probeAndTake(shared, options.now, claimedUntil))
    : withinRequestDeadline(take(shared, options.now, claimedUntil))
  // where fewer were found than there was room for, others are due that wait for one of their reward
  const starved = turns.filter(({ attempts, integratorId }) => (found.get(integratorId) ?? 0) < attempts)
  const turnOf = new Map(turns.map((turn) => [turn.integratorId, turn]))
  return {
    outgoing: taken.flatMap(({ body, eventId, url, ...delivery }): ReadonlyArray<Outgoing> => {
      const turn = turnOf.get(delivery.integratorId)
      if (turn === undefined) return []
      const { probe, secrets, slow } = turn
      return [{ claim: { ...delivery, claimedUntil, probe, slow }, sendBefore, url, eventId, body, secrets }]
    }),
    look: { cursor, starved, seen: taken.length > 0 && starved.length === 0 && last.cursor === cursor ? seen : undefined }
  }
})

/** Whether a look still tells enough. Where an endpoint fails, each claim looks at its breaker. */
const isGood = (seen: Look["seen"], { now, slow }: ClaimOptions): seen is NonNullable<Look["seen"]> =>
  seen !== undefined && Math.abs(now - seen.at) < lookMillis &&
  seen.all.every(({ failures, integratorId }) => failures === 0 && !slow.has(integratorId))

/** With secrets; an endpoint without one to sign with has to wait. */
const signing = (turns: ReadonlyArray<Turn>, secrets: Secrets) =>
  Effect.map(
    Effect.forEach(turns, (turn) => {
      const { expiresAt, generation, integratorId, rotation } = turn
      return Effect.map(Cache.get(secrets, { integratorId, generation, rotation, expiresAt }), (secrets) =>
        Array.isReadonlyArrayNonEmpty(secrets) ? [{ ...turn, secrets }] : [])
    }, { concurrency: secretReads }),
    (found): ReadonlyArray<SigningTurn> => found.flat()
  )

/**
 * Integrators with pending deliveries from the cursor on, found by skipping through the index; of those that have
 * something due, the live endpoint and which secrets it signs with.
 */
const selectTurns = Effect.fnUntraced(function*(cursor: string, now: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Seen>`
    WITH RECURSIVE turn AS (
      (SELECT integrator_id, next_attempt_at, event, generation, 1 AS ordinal FROM deliveries
        WHERE next_attempt_at > '-infinity' AND integrator_id > ${cursor}
        ORDER BY integrator_id, next_attempt_at, event LIMIT 1)
      UNION ALL
      SELECT following.*, turn.ordinal + 1 FROM turn CROSS JOIN LATERAL (
        SELECT d.integrator_id, d.next_attempt_at, d.event, d.generation FROM deliveries d
        WHERE d.next_attempt_at > '-infinity' AND d.integrator_id > turn.integrator_id
        ORDER BY d.integrator_id, d.next_attempt_at, d.event LIMIT 1
      ) following WHERE turn.ordinal < ${value.int4(endpointsPerLook)}
    )
    SELECT t.integrator_id, t.next_attempt_at AS due_from, t.event AS event_from,
      e.generation, coalesce(e.failures, 0) AS failures, e.probe_at, s.rotation, s.expires_at FROM turn t
    LEFT JOIN webhook_endpoints e ON e.integrator_id = t.integrator_id AND e.deleted_at IS NULL
      AND t.next_attempt_at <= ${value.timestamptz(now)}
      -- only what is due longest was of an endpoint before: with a LIMIT it is one look, however much is due
      AND (t.generation = e.generation OR (SELECT 1 FROM deliveries d WHERE d.integrator_id = t.integrator_id
        AND d.next_attempt_at > '-infinity' AND d.next_attempt_at <= ${value.timestamptz(now)}
        AND ${equalWithoutIndex("d.generation", "e.generation")} LIMIT 1) IS NOT NULL)
    LEFT JOIN LATERAL (
      SELECT max(rotation) AS rotation, min(expires_at) FILTER (WHERE expires_at > ${value.timestamptz(now)}) AS expires_at
      FROM webhook_secrets s WHERE s.integrator_id = e.integrator_id AND s.generation = e.generation
    ) s ON true
    ORDER BY t.ordinal`
})

const take = Effect.fnUntraced(function*(turns: ReadonlyArray<SigningTurn>, now: number, until: number) {
  const taken = turns.length === 0 ? [] : yield* takeDeliveries(turns, now, until)
  return { turns, taken, found: countByIntegrator(taken) }
})

/** A probe that was taken and has found nothing to be made with is given back, inside the caller's transaction. */
const probeAndTake = Effect.fnUntraced(function*(shared: ReadonlyArray<SigningTurn>, now: number, until: number) {
  const probing = yield* takeProbes(shared.filter(({ probe }) => probe), now, until)
  const taken = yield* take(shared.filter(({ integratorId, probe }) => !probe || probing.has(integratorId)), now, until)
  const idle = taken.turns.filter(({ integratorId, probe }) => probe && !taken.found.has(integratorId))
  if (idle.length > 0) yield* giveBackProbes(idle, now)
  return taken
})

const countByIntegrator = (taken: ReadonlyArray<{ readonly integratorId: string }>): ReadonlyMap<string, number> => {
  const found = new Map<string, number>()
  for (const { integratorId } of taken) found.set(integratorId, (found.get(integratorId) ?? 0) + 1)
  return found
}

/** An endpoint's probe is taken by one process; while its claim lasts no other is. */
const takeProbes = Effect.fnUntraced(function*(turns: ReadonlyArray<Turn>, now: number, until: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ integratorId: IntegratorId }>`
    WITH free AS (
      SELECT e.integrator_id, e.generation FROM webhook_endpoints e
      JOIN unnest(${ids(turns)}, ${generations(turns)}) AS t(integrator_id, generation)
        USING (integrator_id, generation)
      WHERE e.deleted_at IS NULL AND (e.probe_at IS NULL OR e.probe_at <= ${value.timestamptz(now)})
      FOR NO KEY UPDATE OF e SKIP LOCKED
    )
    UPDATE webhook_endpoints e SET probe_at = ${value.timestamptz(until)} FROM free
    WHERE e.integrator_id = free.integrator_id AND e.generation = free.generation RETURNING e.integrator_id`
  return new Set<string>(rows.map(({ integratorId }) => integratorId))
})

/** Nothing was there to probe with. */
const giveBackProbes = Effect.fnUntraced(function*(turns: ReadonlyArray<Turn>, now: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE webhook_endpoints e SET probe_at = ${value.timestamptz(now)}
    FROM unnest(${ids(turns)}, ${generations(turns)}) AS t(integrator_id, generation)
    WHERE e.integrator_id = t.integrator_id AND e.generation = t.generation`
})

/**
 * The oldest due of each turn, as many as it may have, with all that is needed to send them now: an endpoint that is deleted
 * gets nothing. Each is one of its reward's that none is before, and locked: what another process claims at this moment is
 * passed over.
 */
const takeDeliveries = Effect.fnUntraced(function*(turns: ReadonlyArray<Turn>, at: number, until: number) {
  const sql = yield* SqlClient.SqlClient
  const now = value.timestamptz(at)
  return yield* sql<Taken>`
    WITH chosen AS (
      SELECT d.integrator_id, d.event, d.round, e.url
      FROM unnest(${ids(turns)}, ${generations(turns)}, ${columns.int4(turns.map(({ attempts }) => attempts))},
        ${columns.timestamptz(turns.map(({ dueFrom }) => dueFrom))}, ${columns.int8(turns.map(({ eventFrom }) => eventFrom))})
        AS t(integrator_id, generation, attempts, due_from, event_from)
      CROSS JOIN LATERAL (
        SELECT e.url FROM webhook_endpoints e
        WHERE e.integrator_id = t.integrator_id AND e.generation = t.generation AND e.deleted_at IS NULL ${perRow}
      ) e
      CROSS JOIN LATERAL (
        SELECT d.integrator_id, d.event, d.round FROM deliveries d
        WHERE d.integrator_id = t.integrator_id AND d.next_attempt_at > '-infinity'
          -- nothing before has to be passed over again, of what has been delivered
          AND (d.next_attempt_at, d.event) >= (t.due_from, t.event_from) AND d.next_attempt_at <= ${now}
          AND ${equalWithoutIndex("d.generation", "t.generation")}
          AND (d.claimed_until IS NULL OR d.claimed_until <= ${now})
          -- with a LIMIT it is a look at the reward's own deliveries, whatever the planner knows of the table
          AND (SELECT 1 FROM deliveries p WHERE p.integrator_id = d.integrator_id AND p.reward = d.reward
            AND p.next_attempt_at IS NOT NULL AND ${equalWithoutIndex("p.generation", "d.generation")}
            AND ((p.event, p.round) < (d.event, d.round) OR p.claimed_until > ${now}) LIMIT 1) IS NULL
        ORDER BY d.next_attempt_at, d.event LIMIT t.attempts FOR NO KEY UPDATE SKIP LOCKED
      ) d
    ), taken AS (
      UPDATE deliveries d SET claimed_until = ${value.timestamptz(until)} FROM chosen t
      WHERE d.integrator_id = t.integrator_id AND d.event = t.event AND d.round = t.round
      RETURNING d.integrator_id, d.event, d.round, d.generation, d.reward, d.attempts + 1 AS attempt, d.traceparent, t.url
    )
    SELECT taken.*, v.event_id, v.body FROM taken CROSS JOIN LATERAL (
      SELECT v.event_id, v.body FROM events v
      WHERE v.integrator_id = taken.integrator_id AND v.event = taken.event ${perRow}
    ) v`
})

/**
 * Deliveries that wait for an earlier one of their reward are not looked at again and again. Their turn comes when that
 * one ends (see `Record.ts`), or a second later where it ends at this very moment.
 */
const setBackBlocked = Effect.fnUntraced(function*(turns: ReadonlyArray<Turn>, now: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    WITH blocked AS (
      SELECT d.integrator_id, d.event, d.round, p.next_attempt_at AS until
      FROM unnest(${ids(turns)}, ${generations(turns)}) AS t(integrator_id, generation)
      CROSS JOIN LATERAL (
        SELECT d.* FROM deliveries d
        WHERE d.integrator_id = t.integrator_id AND d.next_attempt_at > '-infinity'
          AND d.next_attempt_at <= ${value.timestamptz(now)} AND ${equalWithoutIndex("d.generation", "t.generation")}
          AND num_nulls(d.reward) = 0 AND d.attempts = 0
          AND (d.claimed_until IS NULL OR d.claimed_until <= ${value.timestamptz(now)})
        ORDER BY d.next_attempt_at, d.event LIMIT ${value.int4(blockedPerLook)} FOR NO KEY UPDATE SKIP LOCKED
      ) d
      CROSS JOIN LATERAL (
        SELECT p.next_attempt_at FROM deliveries p WHERE p.integrator_id = d.integrator_id AND p.reward = d.reward
          AND p.next_attempt_at IS NOT NULL AND ${equalWithoutIndex("p.generation", "d.generation")}
          AND (p.event, p.round) < (d.event, d.round)
        ORDER BY p.event LIMIT 1 FOR SHARE SKIP LOCKED
      ) p
    )
    UPDATE deliveries d SET next_attempt_at = least(greatest(t.until, ${value.timestamptz(now + minSetBackMillis)}),
      ${value.timestamptz(now + maxSetBackMillis)}), claimed_until = NULL
    FROM blocked t WHERE d.integrator_id = t.integrator_id
      AND d.event = t.event AND d.round = t.round`
})

const ids = (turns: ReadonlyArray<Turn>) => columns.text(turns.map(({ integratorId }) => integratorId))
const generations = (turns: ReadonlyArray<Turn>) => columns.int4(turns.map(({ generation }) => generation))
