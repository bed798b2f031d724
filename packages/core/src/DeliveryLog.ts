import type { Delivery, DeliveryPage, DeliveryState } from "@card-rewards/domain/Delivery"
import { InvalidRequest, NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { WebhookEventKind } from "@card-rewards/domain/Event"
import type { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import type { Page } from "@card-rewards/domain/Pagination"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { columns, transaction, value, withinRequestDeadline } from "./Database.ts"
import { redeliverIn } from "./DeliveryLog/Redeliver.ts"
import { eventId } from "./Ledger/Writes.ts"
import { integratorTime } from "./SandboxClock.ts"
import * as Tracing from "./Tracing.ts"

/** Which deliveries to list; without a state, all. */
export interface DeliveryQuery extends Page {
  readonly state?: DeliveryState | undefined
}

/** The deliveries of an integrator's endpoint, to list and to repeat (decisions, section 9). Their times are real. */
export class DeliveryLog extends Context.Service<DeliveryLog, {
  /**
   * The live endpoint's deliveries with their attempts as they go over the wire, newest first. A page costs the same
   * wherever it is. A delivery has at most 51 attempts, so the JSON of 100 is less than 1 MiB.
   */
  readonly list: (
    integratorId: IntegratorId,
    id: EndpointId,
    query: DeliveryQuery
  ) => Effect.Effect<typeof DeliveryPage.Encoded, NotFound | InvalidRequest | Unavailable>
  /**
   * A fresh delivery of a stored event, due at once. It stands in its reward's order like any other. The event's
   * pending delivery is cancelled in its favour, unless it has not been tried yet: then that one is the answer.
   */
  readonly redeliver: (
    integratorId: IntegratorId,
    id: EndpointId,
    eventId: string
  ) => Effect.Effect<Delivery, NotFound | Unavailable>
  /** Stores a `webhook.ping` event and its delivery. Returns the event's id. */
  readonly ping: (integratorId: IntegratorId, id: EndpointId) => Effect.Effect<string, NotFound | Unavailable>
}>()("@card-rewards/core/DeliveryLog") {
  static readonly layer = Layer.effect(
    DeliveryLog,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return DeliveryLog.of({
        list: Effect.fn("DeliveryLog.list")((integratorId, id, query) =>
          withinRequestDeadline(list(integratorId, id, query)).pipe(run)
        ),
        redeliver: Effect.fn("DeliveryLog.redeliver")((integratorId, id, event) =>
          transaction(Effect.flatMap(lockEndpoint(integratorId, id), (generation) =>
            redeliverIn(integratorId, generation, event))).pipe(run)
        ),
        ping: Effect.fn("DeliveryLog.ping")((integratorId, id) => transaction(pingIn(integratorId, id)).pipe(run))
      })
    })
  )
}

interface Row {
  readonly event: bigint
  readonly round: number
  readonly state: DeliveryState
  readonly createdAt: number
  readonly nextAttemptAt: number | null
  readonly eventId: string
  readonly kind: WebhookEventKind
  readonly at: number | null
  readonly durationMillis: number | null
  readonly status: number | null
  readonly error: string | null
}

const allStates: ReadonlyArray<DeliveryState> = ["pending", "delivered", "exhausted", "cancelled"]

const list = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId, query: DeliveryQuery) {
  const before = query.cursor === undefined ? latest : yield* readCursor(query.cursor)
  const sql = yield* SqlClient.SqlClient
  const generation = yield* endpointOf(integratorId, id)
  const wanted = columns.text(query.state === undefined ? allStates : [query.state])
  // each state's newest by the index, then the newest of those
  const rows = yield* sql<Row>`
    SELECT d.event, d.round, d.state, d.created_at, d.next_attempt_at, v.event_id, v.kind,
      a.at, a.duration_millis, a.status, a.error
    FROM (
      SELECT d.* FROM unnest(${wanted}) AS wanted(state) CROSS JOIN LATERAL (
        SELECT d.* FROM deliveries d
        WHERE d.integrator_id = ${integratorId} AND d.generation = ${value.int4(generation)} AND d.state = wanted.state
          AND (d.created_at, d.event, d.round)
            < (${value.timestamptz(before.createdAt)}, ${value.int8(before.event)}, ${value.int4(before.round)})
        ORDER BY d.created_at DESC, d.event DESC, d.round DESC LIMIT ${value.int4(query.limit + 1)}
      ) d ORDER BY d.created_at DESC, d.event DESC, d.round DESC LIMIT ${value.int4(query.limit + 1)}
    ) d
    JOIN events v ON v.integrator_id = d.integrator_id AND v.event = d.event
    LEFT JOIN delivery_attempts a ON a.integrator_id = d.integrator_id AND a.event = d.event AND a.round = d.round
    ORDER BY d.created_at DESC, d.event DESC, d.round DESC, a.attempt`
  const found = groupByDelivery(rows)
  const shown = found.slice(0, query.limit)
  const last = shown.at(-1)?.[0]
  const deliveries = shown.map(encodeDelivery)
  return found.length > query.limit && last !== undefined ? { deliveries, next: printCursor(last) } : { deliveries }
})

/** Rows with one attempt each, or none, stand together. */
const groupByDelivery = (rows: ReadonlyArray<Row>): ReadonlyArray<readonly [Row, ...ReadonlyArray<Row>]> => {
  const groups: Array<[Row, ...Array<Row>]> = []
  for (const row of rows) {
    const group = groups.at(-1)
    if (group !== undefined && group[0].event === row.event && group[0].round === row.round) group.push(row)
    else groups.push([row])
  }
  return groups
}

const encodeDelivery = (rows: readonly [Row, ...ReadonlyArray<Row>]): typeof Delivery.Encoded => {
  const { createdAt, eventId, kind, nextAttemptAt, state } = rows[0]
  return {
    eventId,
    kind,
    state,
    createdAt: printTimestamp(createdAt),
    ...(nextAttemptAt === null || state !== "pending" ? {} : { nextAttemptAt: printTimestamp(nextAttemptAt) }),
    attempts: rows.flatMap(({ at, durationMillis, error, status }) =>
      at === null || durationMillis === null
        ? []
        : [{
          at: printTimestamp(at),
          durationMillis,
          ...(status === null ? {} : { status }),
          ...(error === null ? {} : { error })
        }])
  }
}

type Position = Pick<Row, "createdAt" | "event" | "round">

/** After every delivery. */
const latest: Position = { createdAt: 253_402_300_799_999, event: 2n ** 63n - 1n, round: 2 ** 31 - 1 }

const printCursor = ({ createdAt, event, round }: Position): string => `d${createdAt}-${event}-${round}`

const readCursor = (cursor: string) => {
  const [, createdAt, event, round] = /^d([0-9]{1,15})-([0-9]{1,18})-([0-9]{1,9})$/.exec(cursor) ?? []
  return createdAt === undefined || event === undefined || round === undefined || Number(createdAt) > latest.createdAt
    ? Effect.fail(new InvalidRequest({ part: "query", message: "cursor: expected the `next` of an earlier page" }))
    : Effect.succeed<Position>({ createdAt: Number(createdAt), event: BigInt(event), round: Number(round) })
}

/** The live endpoint's generation. */
const endpointOf = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ generation: number }>`SELECT generation FROM webhook_endpoints
    WHERE integrator_id = ${integratorId} AND endpoint_id = ${id} AND deleted_at IS NULL`
  return row === undefined ? yield* NotFound.of("webhook_endpoint", id) : row.generation
})

/** As {@link endpointOf}; locks out deletion and other redeliveries until the transaction ends. */
const lockEndpoint = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT 1 FROM webhook_endpoints WHERE integrator_id = ${integratorId} AND deleted_at IS NULL
    FOR NO KEY UPDATE`
  return yield* endpointOf(integratorId, id)
})

/** Numbers the event under the vault's lock, which also locks out the endpoint's deletion. */
const pingIn = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT 1 FROM vaults WHERE integrator_id = ${integratorId} FOR UPDATE`
  const generation = yield* endpointOf(integratorId, id)
  const at = yield* integratorTime(integratorId)
  const now = value.timestamptz(yield* Clock.currentTimeMillis)
  const [number] = yield* sql<{ event: bigint; salt: string }>`
    UPDATE vaults v SET events = v.events + 1 FROM integrators i
    WHERE v.integrator_id = ${integratorId} AND i.integrator_id = v.integrator_id
    RETURNING v.events AS event, i.event_salt AS salt`
  if (number === undefined) return yield* Effect.die(new Error("an endpoint without a vault"))
  const kind: WebhookEventKind = "webhook.ping"
  const ping = eventId(number.salt, number.event)
  const body = JSON.stringify({ id: ping, kind, integratorId, createdAt: printTimestamp(at), data: {} })
  yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
    VALUES (${integratorId}, ${value.int8(number.event)}, ${ping}, ${kind}, ${value.timestamptz(at)}, ${body})`
  yield* sql`INSERT INTO deliveries
      (integrator_id, event, round, generation, state, created_at, next_attempt_at, traceparent)
    VALUES (${integratorId}, ${value.int8(number.event)}, 1, ${value.int4(generation)}, 'pending', ${now}, ${now},
      ${value.text(yield* Tracing.traceparent)})`
  return ping
})
