import type { Delivery } from "@card-rewards/domain/Delivery"
import { NotFound } from "@card-rewards/domain/Errors"
import type { WebhookEventKind } from "@card-rewards/domain/Event"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { holdBack, isOpenOfEvent, openFirst, withChain } from "../Deliveries/Order.ts"
import { wakeEndpoints } from "../Deliveries/WakeUp.ts"
import * as Tracing from "../Tracing.ts"
import type { Endpoint } from "./Endpoint.ts"

interface Event {
  readonly event: bigint
  readonly kind: WebhookEventKind
  readonly storedAt: number
  readonly reward: bigint | null
}

/** The event's delivery that waits for its next attempt, if there is one. */
interface Open {
  readonly round: number
  readonly attempts: number
  readonly createdAt: number
  readonly nextAttemptAt: number | null
}

/**
 * Delivers an event again, inside the caller's transaction. It has locked the vault and then the endpoint: its holder
 * neither gives it up nor records anything meanwhile.
 */
export const redeliver = Effect.fnUntraced(function*(endpoint: Endpoint, id: string) {
  const sql = yield* SqlClient.SqlClient
  const { integratorId } = endpoint
  const found = yield* find(integratorId, id)
  const now = yield* Clock.currentTimeMillis
  const answer = (createdAt: number, nextAttemptAt: number): Delivery => ({
    eventId: id,
    kind: found.kind,
    state: "pending",
    createdAt: instant(createdAt),
    nextAttemptAt: instant(nextAttemptAt),
    attempts: []
  })
  if (yield* isNew(endpoint, found.event)) return answer(found.storedAt, found.storedAt)
  const open = yield* findOpen(endpoint, found.event)
  // what has not been attempted yet is as fresh as can be, so that a repeated request makes no second delivery
  if (open?.attempts === 0) return answer(open.createdAt, open.nextAttemptAt ?? now)
  if (open !== undefined) yield* cancel(endpoint, found.event, open.round)
  yield* insert(endpoint, found, now)
  yield* wakeEndpoints(sql, [integratorId], now)
  return answer(now, now)
})

/** The event by its id, which has its number. */
const find = Effect.fnUntraced(function*(integratorId: IntegratorId, id: string) {
  const number = /^evt_[0-9a-f]{16}([0-9a-f]{12})$/.exec(id)?.[1]
  if (number === undefined) return yield* NotFound.of("event", id)
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Event>`SELECT event, kind, stored_at, reward FROM events
    WHERE integrator_id = ${integratorId} AND event = ${value.int8(BigInt(`0x${number}`))} AND event_id = ${id}`
  return row ?? (yield* NotFound.of("event", id))
})

/** Whether the first attempt with the event is still to be recorded. */
const isNew = Effect.fnUntraced(function*({ generation, integratorId }: Endpoint, event: bigint) {
  const sql = yield* SqlClient.SqlClient
  const number = value.int8(event)
  const rows = yield* sql`SELECT FROM webhook_endpoints e
    WHERE e.integrator_id = ${integratorId} AND e.generation = ${value.int4(generation)} AND e.cursor < ${number}
      AND NOT EXISTS (SELECT FROM retries r WHERE r.integrator_id = e.integrator_id AND r.event = ${number}
        AND r.round = 1)
      AND NOT EXISTS (SELECT FROM delivery_attempts a WHERE a.integrator_id = e.integrator_id AND a.event = ${number}
        AND a.status BETWEEN 200 AND 299)`
  return rows.length > 0
})

const findOpen = Effect.fnUntraced(function*({ generation, integratorId }: Endpoint, event: bigint) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Open>`
    SELECT r.* FROM (
      SELECT ${withChain("v")}, ${value.int4(generation)} AS generation FROM events v
      WHERE v.integrator_id = ${integratorId} AND v.event = ${value.int8(event)} ${perRow}
    ) v CROSS JOIN LATERAL (
      SELECT r.round, r.attempts, r.created_at, r.next_attempt_at FROM retries r WHERE ${isOpenOfEvent("r", "v")}
      ORDER BY r.round DESC LIMIT 1 ${perRow}
    ) r`
  return row
})

const cancel = Effect.fnUntraced(function*({ integratorId }: Endpoint, event: bigint, round: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE retries SET state = 'cancelled', next_attempt_at = NULL
    WHERE integrator_id = ${integratorId} AND event = ${value.int8(event)} AND round = ${value.int4(round)}`
})

/** A new round of the event, in its place in the order of its reward: later retries of the reward wait for it. */
const insert = Effect.fnUntraced(function*(endpoint: Endpoint, { event, reward }: Event, now: number) {
  const { integratorId } = endpoint
  const sql = yield* SqlClient.SqlClient
  const [number, generation, at] = [value.int8(event), value.int4(endpoint.generation), value.timestamptz(now)]
  const round = endpoint.round + 1
  yield* sql`
    WITH e AS (
      UPDATE webhook_endpoints SET round = ${value.int4(round)}
      WHERE integrator_id = ${integratorId} AND generation = ${generation} RETURNING revision
    )
    INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, next_attempt_at, revision,
      created_at, traceparent)
    SELECT ${integratorId}, ${generation}, ${number}, ${value.int4(round)}, ${value.int8(reward)}, 'open', 0,
      ${reward === null ? at : value.timestamptz(null)}, e.revision, ${at}, ${value.text(yield* Tracing.traceparent)}
    FROM e`
  if (reward === null) return
  yield* holdBack([{ ...endpoint, reward, event, round }])
  yield* openFirst([{ ...endpoint, reward }], at)
})
