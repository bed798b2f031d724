import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { PgTypes } from "@effect/sql-pg"
import { Array, Cache, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { maxInt8, value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { bool, columnList, int4, int8, nullable, type Row, text, timestamptz } from "../Database/Table.ts"
import type { LogDelivery, Reading, ReadRequest } from "./Delivery.ts"
import { leaseColumns } from "./HeldEndpoints.ts"
import { isFirstOpen, isOpenOfEvent, withChain } from "./Order.ts"
import type { SecretsCache } from "./SigningSecrets.ts"

/** How many endpoints' secrets are read at the same time. */
const secretReads = 4
/** The maximum number of events of the log that one read of a replay visits, of any kinds. */
const maxVisited = 1_000

/**
 * A delivery of an endpoint, or nulls where it has none, behind the endpoint's own columns. By their values: the driver
 * makes an object with so many columns of each row that takes ten times as long.
 */
const readColumns = columnList({
  integrator_id: text<IntegratorId>(),
  generation: int4(),
  url: text(),
  revision: int4(),
  failures: int4(),
  probe_at: nullable(timestamptz()),
  rotation: nullable(int4()),
  expires_at: nullable(timestamptz()),
  read_to: int8(),
  replay: nullable(int4()),
  replay_after: int8(),
  replay_read_to: int8(),
  replay_last: int8(),
  event: nullable(int8()),
  round: int4(),
  attempts: int4(),
  reward: nullable(int8()),
  due_at: timestamptz(),
  event_id: text(),
  body: text(),
  traceparent: nullable(text()),
  source: text<"new" | "retry" | "replay">(),
  is_blocked: bool()
})

type ReadRow = Row<typeof readColumns>

/** Reads the next events and the due retries of leased endpoints, each with what is needed to send it. */
export const read = Effect.fnUntraced(function*(
  requests: ReadonlyArray<ReadRequest>,
  now: number,
  secrets: SecretsCache
) {
  if (requests.length === 0) return []
  const rows = yield* select(requests, now)
  const endpoints = Array.isReadonlyArrayNonEmpty(rows) ? Object.values(Array.groupBy(rows, groupOf)) : []
  return yield* Effect.forEach(endpoints, (own) => toReading(own, secrets), { concurrency: secretReads })
})

const groupOf = ({ integratorId }: ReadRow): IntegratorId => integratorId

const toReading = Effect.fnUntraced(function*(rows: Array.NonEmptyReadonlyArray<ReadRow>, secrets: SecretsCache) {
  const { expiresAt, failures, generation, integratorId, probeAt, revision, rotation, url } = rows[0]
  const valid = yield* Cache.get(secrets, { integratorId, generation, rotation, expiresAt })
  const from = (source: ReadRow["source"]) =>
    rows.flatMap((row) => row.source === source ? deliveryOf(row) : [])
  const { readTo, replay: round, replayAfter: after, replayLast: last, replayReadTo } = rows[0]
  return {
    integratorId,
    url,
    revision,
    breaker: { failures, probeAt },
    secrets: Array.isReadonlyArrayNonEmpty(valid) ? valid : undefined,
    events: from("new"),
    readTo,
    retries: from("retry"),
    replay: round === null ? undefined : { round, after, last, readTo: replayReadTo, events: from("replay") }
  } satisfies Reading
})

/** Without the endpoint's columns, which would stay in memory as long as the delivery. */
const deliveryOf = (row: ReadRow): ReadonlyArray<LogDelivery> => {
  const { attempts, body, dueAt, event, eventId, isBlocked, reward, round, traceparent } = row
  return event === null ? [] : [{ event, round, attempts, reward, dueAt, eventId, body, traceparent, isBlocked }]
}

const requestColumns = columnList({
  ...leaseColumns.columns,
  after: int8(),
  ahead: int8(),
  replay: nullable(int4()),
  replay_after: nullable(int8()),
  events: int4(),
  retries: int4(),
  replayed: int4(),
  max_bytes: int4()
})

const toRow = ({ replay, ...request }: ReadRequest) =>
  ({ ...request, replay: replay?.round, replayAfter: replay?.after, replayed: replay?.events ?? 0 })

/**
 * Rows of endpoints whose lease is still held, with one delivery each. Of one reward, only the first of its retries is
 * due, and an event of the log is blocked while there is one before it. A subquery with a `LIMIT` reads only
 * an event's own rows, by an index, whatever the planner knows of the table.
 */
const select = Effect.fnUntraced(function*(requests: ReadonlyArray<ReadRequest>, now: number) {
  const sql = yield* SqlClient.SqlClient
  const at = value.timestamptz(now)
  const isFirst = (alias: string, round: string) => isFirstOpen(alias, "e.generation", round)
  return readColumns.rows(yield* sql`
    SELECT ${readColumns.of("found")} FROM (
    SELECT e.integrator_id, e.generation, e.url, e.revision, e.failures, e.probe_at, s.rotation, s.expires_at,
      CASE t.events WHEN 0 THEN t.after ELSE greatest(t.after, t.ahead) END AS read_to,
      rp.round AS replay, rp.after AS replay_after, rp.read_to AS replay_read_to, rp.last_event AS replay_last,
      d.event, d.round, d.attempts, d.reward, d.due_at, d.event_id, d.body, d.traceparent, d.source, d.is_blocked
    FROM ${requestColumns.unnest(requests.map(toRow))}
    JOIN webhook_endpoints e ON ${leaseColumns.match("e", "t")}
    CROSS JOIN LATERAL (
      SELECT max(rotation) AS rotation, min(expires_at) FILTER (WHERE expires_at > ${at}) AS expires_at
      FROM webhook_secrets s WHERE s.integrator_id = e.integrator_id AND s.generation = e.generation
    ) s
    LEFT JOIN LATERAL (
      SELECT p.*, CASE t.replayed WHEN 0 THEN p.after
        ELSE greatest(p.after, least(p.after + ${value.int4(maxVisited)}, p.last_event, e.cursor)) END AS read_to
      FROM (
        SELECT p.*, CASE t.replay WHEN e.replay THEN t.replay_after ELSE e.replay_cursor END AS after FROM replays p
        WHERE p.integrator_id = e.integrator_id AND p.round = e.replay
      ) p
    ) rp ON true
    LEFT JOIN LATERAL (
      SELECT d.*, octet_length(d.body) AS own,
        sum(octet_length(d.body)) OVER (PARTITION BY d.source ORDER BY d.event, d.round) AS bytes
      FROM (
        (SELECT v.event, 1 AS round, 0 AS attempts, v.reward, v.stored_at AS due_at, v.event_id, v.body, v.traceparent,
          'new' AS source, NOT ${isFirst("v", "1")} AS is_blocked
        FROM events v WHERE v.integrator_id = t.integrator_id AND v.event > t.after
          AND v.event <= CASE WHEN t.after < t.ahead THEN t.ahead ELSE ${value.int8(maxInt8)} END
          AND (t.after >= t.ahead OR ((SELECT 1 FROM retries r WHERE r.integrator_id = v.integrator_id
            AND r.event = v.event AND r.round = 1 LIMIT 1) IS NULL
            AND (SELECT 1 FROM delivery_attempts a WHERE a.integrator_id = v.integrator_id AND a.event = v.event
            AND a.status BETWEEN 200 AND 299 LIMIT 1) IS NULL))
        ORDER BY v.event LIMIT t.events)
        UNION ALL
        SELECT r.event, r.round, r.attempts, r.reward, r.next_attempt_at, v.event_id, v.body, r.traceparent, 'retry',
          false
        FROM (
          (SELECT r.* FROM retries r WHERE r.integrator_id || '' = e.integrator_id
            AND r.revision >= e.first_revision AND r.revision < e.revision AND r.next_attempt_at > '-infinity'
            ORDER BY r.revision, r.next_attempt_at LIMIT t.retries)
          UNION ALL
          (SELECT r.* FROM retries r WHERE r.integrator_id || '' = e.integrator_id
            AND r.revision = e.revision AND r.next_attempt_at > '-infinity' AND r.next_attempt_at <= ${at}
            ORDER BY r.next_attempt_at, r.event LIMIT t.retries)
        ) r CROSS JOIN LATERAL (
          SELECT v.event_id, v.body FROM events v
          WHERE v.integrator_id = r.integrator_id AND v.event = r.event ${perRow}
        ) v
        WHERE ${isFirst("r", "r.round")}
        UNION ALL
        (${replayed(sql, at)})
      ) d
    ) d ON d.bytes <= t.max_bytes OR d.bytes = d.own
    ) found`.values)
})

/** Events of the replay `rp` of the endpoint `e`, those left out that are pending or that it has delivered. */
const replayed = (sql: SqlClient.SqlClient, at: PgTypes.Parameter) =>
  sql`SELECT v.event, rp.round, 0, v.reward, ${at}, v.event_id, v.body, rp.traceparent, 'replay',
      NOT ${isFirstOpen("v", "e.generation", "rp.round")}
    FROM (
      SELECT ${withChain("v")} FROM events v
      WHERE v.integrator_id = e.integrator_id AND v.event > rp.after AND v.event <= rp.read_to
        AND (rp.kinds IS NULL OR v.kind = ANY(rp.kinds))
      ORDER BY v.event ${perRow}
    ) v
    -- it has been delivered again already, or it will be
    WHERE (SELECT 1 FROM retries r WHERE ${isOpenOfEvent("r", "v", "e.generation")} LIMIT 1) IS NULL
      AND (SELECT 1 FROM retries r WHERE r.integrator_id = v.integrator_id AND r.event = v.event
        AND r.round = rp.round LIMIT 1) IS NULL
      AND (SELECT 1 FROM delivery_attempts a WHERE a.integrator_id = v.integrator_id AND a.event = v.event
        AND a.round = rp.round AND a.status BETWEEN 200 AND 299 LIMIT 1) IS NULL
    ORDER BY v.event LIMIT t.replayed`
