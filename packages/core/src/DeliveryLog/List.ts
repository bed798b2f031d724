import { type Delivery, type DeliveryPage, DeliveryState } from "@card-rewards/domain/Delivery"
import type { WebhookEventKind } from "@card-rewards/domain/Event"
import type { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { invalidCursor, type Page } from "@card-rewards/domain/Pagination"
import { latestMillis, printTimestamp } from "@card-rewards/domain/Time"
import { Clock, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { columns, maxInt8, value } from "../Database.ts"
import { perRow, retriesOfEndpoint } from "../Database/PlannerHints.ts"
import { isOpenOfReward } from "../Deliveries/Order.ts"
import { findEndpoint } from "./Endpoint.ts"

/** Which deliveries to list; without a state, all. */
export interface DeliveryQuery extends Page {
  readonly state?: DeliveryState | undefined
}

/** Events that one page of a state visits, at most: a page may be shorter than asked for, and have a next one. */
const maxVisited = 2_000

interface Row {
  readonly event: bigint
  readonly round: number
  readonly state: DeliveryState
  readonly createdAt: number
  readonly nextAttemptAt: number | null
  readonly eventId: string
  readonly kind: WebhookEventKind
}

/**
 * A page of an endpoint's deliveries, newest first: the first deliveries of events, in order of the events, merged with
 * the repeated ones, in order of the requests for them.
 */
export const list = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId, query: DeliveryQuery) {
  const before = query.cursor === undefined ? latest : yield* readCursor(query.cursor)
  const { generation } = yield* findEndpoint(integratorId, id)
  const first = yield* selectFirst(integratorId, generation, query, before)
  const repeated = yield* selectRepeated(integratorId, generation, query, before)
  const found = merge(first.rows, repeated)
  const shown = found.slice(0, query.limit)
  const attempts = yield* selectAttempts(integratorId, shown)
  const deliveries = shown.map((row) => encodeDelivery(row, attempts.get(keyOf(row)) ?? []))
  const isLast = found.length <= query.limit && first.next === undefined
  // events that were visited in vain are not visited again
  const next = advance(before, shown, found.length <= query.limit ? first.next : undefined)
  return isLast ? { deliveries } : { deliveries, next: printCursor(next) } satisfies typeof DeliveryPage.Encoded
})

/** Newest first; each of the lists keeps its order, whatever the clocks of the processes that stored the events. */
const merge = (first: ReadonlyArray<Row>, repeated: ReadonlyArray<Row>): ReadonlyArray<Row> => {
  const [one] = first
  const [other] = repeated
  if (one === undefined || other === undefined) return [...first, ...repeated]
  return other.createdAt >= one.createdAt
    ? [other, ...merge(first, repeated.slice(1))]
    : [one, ...merge(first.slice(1), repeated)]
}

/** Where a page begins: before which event, and before which repeated delivery. */
interface PageStart extends Pick<Row, "createdAt" | "event" | "round"> {
  readonly firstBefore: bigint
}

/** After every delivery. */
const latest: PageStart = {
  firstBefore: maxInt8,
  createdAt: latestMillis,
  event: maxInt8,
  round: 2 ** 31 - 1
}

const advance = (before: PageStart, shown: ReadonlyArray<Row>, visitedTo: bigint | undefined): PageStart => {
  const repeated = shown.findLast(({ round }) => round > 1)
  const first = shown.findLast(({ round }) => round === 1)
  return { ...before, ...repeated, firstBefore: visitedTo ?? first?.event ?? before.firstBefore }
}

const printCursor = ({ createdAt, event, firstBefore, round }: PageStart): string =>
  `d${firstBefore}.${createdAt}.${event}.${round}`

const readCursor = (cursor: string) => {
  const [, ...parts] = /^d([0-9]{1,19})\.([0-9]{1,15})\.([0-9]{1,19})\.([0-9]{1,10})$/.exec(cursor) ?? []
  const [firstBefore = "", createdAt = "", event = "", round = ""] = parts
  const start = {
    firstBefore: BigInt(firstBefore),
    createdAt: Number(createdAt),
    event: BigInt(event),
    round: Number(round)
  }
  return parts.length === 0 || start.firstBefore > maxInt8 || start.event > maxInt8 ||
      start.createdAt > latest.createdAt || start.round > latest.round
    ? Effect.fail(invalidCursor())
    : Effect.succeed<PageStart>(start)
}

/** First deliveries, and before which event to go on where none or few of those visited have the state. */
const selectFirst = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  generation: number,
  { limit, state }: DeliveryQuery,
  { firstBefore }: PageStart
) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const visited = value.int4(state === undefined ? limit + 1 : maxVisited)
  const before = value.int8(firstBefore)
  const ofRetries = (stored: string) =>
    sql`SELECT r.event, false FROM retries r
      WHERE ${sql.literal(retriesOfEndpoint("r", "first"))} = (e.generation, e.integrator_id)
        AND r.state = ${stored} AND r.event < ${before}
      ORDER BY r.event DESC LIMIT ${value.int4(limit + 1)}`
  const ofEvents = (after: "start" | "cursor") =>
    sql`SELECT v.event, true FROM events v WHERE v.integrator_id = e.integrator_id
      AND v.event > e.${sql.literal(after)} AND v.event < ${before} ORDER BY v.event DESC LIMIT ${visited}`
  const candidates = state === undefined || state === "delivered"
    ? ofEvents("start")
    : state === "pending"
    ? sql`(${ofEvents("cursor")}) UNION ALL (${ofRetries("open")})`
    : ofRetries(state)
  const rows = yield* sql<Omit<Row, "event"> & { event: bigint | null; visitedTo: bigint | null }>`
    WITH e AS (
      SELECT integrator_id, generation, start, cursor, revision FROM webhook_endpoints
      WHERE integrator_id = ${integratorId} AND generation = ${value.int4(generation)}
    ), candidates AS (
      SELECT c.* FROM e CROSS JOIN LATERAL (${candidates}) AS c(event, is_visit)
    ), visits AS (
      SELECT CASE WHEN count(*) >= ${visited} THEN min(event) END AS visited_to FROM candidates WHERE is_visit
    )
    SELECT visits.visited_to, d.* FROM visits LEFT JOIN LATERAL (
      SELECT v.event, 1 AS round, d.state, v.stored_at AS created_at, d.next_attempt_at, v.event_id, v.kind
      FROM (SELECT DISTINCT event FROM candidates) c CROSS JOIN e
      CROSS JOIN LATERAL (
        SELECT * FROM events v WHERE v.integrator_id = e.integrator_id AND v.event = c.event ${perRow}
      ) v
      LEFT JOIN LATERAL (
        SELECT * FROM retries r WHERE r.integrator_id = e.integrator_id AND r.event = v.event AND r.round = 1 ${perRow}
      ) r ON true
      CROSS JOIN LATERAL (
        SELECT CASE
          WHEN r.state = 'open' THEN 'pending'
          WHEN r.state IS NOT NULL THEN r.state
          WHEN v.event <= e.cursor THEN 'delivered'
          WHEN EXISTS (SELECT FROM delivery_attempts a WHERE a.integrator_id = v.integrator_id AND a.event = v.event
            AND a.status BETWEEN 200 AND 299) THEN 'delivered'
          ELSE 'pending' END AS state,
          CASE WHEN r.state IS NULL THEN v.stored_at ELSE ${nextAttemptAt(sql, now)} END AS next_attempt_at
      ) d
      WHERE ${state === undefined ? sql`true` : sql`d.state = ${state}`}
        AND (visits.visited_to IS NULL OR v.event >= visits.visited_to)
      ORDER BY v.event DESC LIMIT ${value.int4(limit + 1)}
    ) d ON true ORDER BY d.event DESC`
  return {
    rows: rows.flatMap((row): ReadonlyArray<Row> => row.event === null ? [] : [{ ...row, event: row.event }]),
    next: rows[0]?.visitedTo ?? undefined
  }
})

/**
 * When an open retry `r` of the endpoint `e` is attempted next: behind another one of its reward, not before that one;
 * at once where the URL has changed since.
 */
const nextAttemptAt = (sql: SqlClient.SqlClient, now: number) =>
  sql`coalesce(CASE WHEN r.revision < e.revision THEN least(r.next_attempt_at, ${value.timestamptz(now)})
    ELSE r.next_attempt_at END, (SELECT p.next_attempt_at FROM retries p
    WHERE ${isOpenOfReward("p", "r")} ORDER BY p.event, p.round LIMIT 1))`

/** The newest repeated deliveries of each state by its index, and of these the newest. */
const selectRepeated = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  generation: number,
  { limit, state }: DeliveryQuery,
  before: PageStart
) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const stored = (state === undefined ? DeliveryState.literals : [state]).map((one) => one === "pending" ? "open" : one)
  return yield* sql<Row>`
    SELECT r.event, r.round, CASE r.state WHEN 'open' THEN 'pending' ELSE r.state END AS state, r.created_at,
      CASE r.state WHEN 'open' THEN ${nextAttemptAt(sql, now)} END AS next_attempt_at, v.event_id, v.kind
    FROM webhook_endpoints e CROSS JOIN unnest(${columns.text(stored)}) AS wanted(state)
    CROSS JOIN LATERAL (
      SELECT r.* FROM retries r
      WHERE ${sql.literal(retriesOfEndpoint("r", "repeated"))} = (e.generation, e.integrator_id)
        AND r.state = wanted.state AND (r.created_at, r.event, r.round)
          < (${value.timestamptz(before.createdAt)}, ${value.int8(before.event)}, ${value.int4(before.round)})
      ORDER BY r.created_at DESC, r.event DESC, r.round DESC LIMIT ${value.int4(limit + 1)}
    ) r
    CROSS JOIN LATERAL (
      SELECT * FROM events v WHERE v.integrator_id = r.integrator_id AND v.event = r.event ${perRow}
    ) v
    WHERE e.integrator_id = ${integratorId} AND e.generation = ${value.int4(generation)}
    ORDER BY r.created_at DESC, r.event DESC, r.round DESC LIMIT ${value.int4(limit + 1)}`
})

interface AttemptRow extends Pick<Row, "event" | "round"> {
  readonly at: number
  readonly durationMillis: number
  readonly status: number | null
  readonly error: string | null
}

const keyOf = ({ event, round }: Pick<Row, "event" | "round">): string => `${event}/${round}`

/** So many attempts of a delivery are shown, the newest, so that the JSON of 100 deliveries is less than 1 MiB. */
const maxAttempts = 51

/**
 * The attempts of deliveries, in order. A replay's attempt that succeeded at once has no delivery of its own: it is
 * shown with the event's first one, where it is among the newest 51 of the event's later attempts.
 */
const selectAttempts = Effect.fnUntraced(function*(integratorId: IntegratorId, shown: ReadonlyArray<Row>) {
  const sql = yield* SqlClient.SqlClient
  const newest = (which: Statement.Fragment) =>
    sql`SELECT a.round AS own_round, a.attempt, a.at, a.duration_millis, a.status, a.error FROM delivery_attempts a
      WHERE a.integrator_id = ${integratorId} AND a.event = t.event AND ${which}
      ORDER BY a.round DESC, a.attempt DESC, a.at DESC LIMIT ${value.int4(maxAttempts)}`
  const rows = yield* sql<AttemptRow>`
    SELECT t.event, t.round, a.* FROM unnest(${columns.int8(shown.map(({ event }) => event))},
      ${columns.int4(shown.map(({ round }) => round))}) AS t(event, round)
    CROSS JOIN LATERAL (
      SELECT a.* FROM (
        (${newest(sql`a.round = t.round`)}) UNION ALL (
          SELECT a.* FROM (${newest(sql`a.round > t.round AND t.round = 1`)}) a
          WHERE (SELECT 1 FROM retries r WHERE r.integrator_id = ${integratorId} AND r.event = t.event
            AND r.round = a.own_round LIMIT 1) IS NULL
        )
      ) a
      ORDER BY a.own_round DESC, a.attempt DESC, a.at DESC LIMIT ${value.int4(maxAttempts)}
    ) a ORDER BY a.own_round, a.attempt, a.at`
  return Map.groupBy(rows, keyOf)
})

const encodeDelivery = (
  { createdAt, eventId, kind, nextAttemptAt, state }: Row,
  attempts: ReadonlyArray<AttemptRow>
): typeof Delivery.Encoded => ({
  eventId,
  kind,
  state,
  createdAt: printTimestamp(createdAt),
  ...(nextAttemptAt === null || state !== "pending" ? {} : { nextAttemptAt: printTimestamp(nextAttemptAt) }),
  attempts: attempts.map(({ at, durationMillis, error, status }) => ({
    at: printTimestamp(at),
    durationMillis,
    ...(status === null ? {} : { status }),
    ...(error === null ? {} : { error })
  }))
})
