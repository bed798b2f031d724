import type { Delivery, DeliveryPage } from "@card-rewards/domain/Delivery"
import type { InvalidRequest, NotFound, Unavailable } from "@card-rewards/domain/Errors"
import type { WebhookEventKind } from "@card-rewards/domain/Event"
import type { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import type { Replay, ReplayRequest, ReplayRunning } from "@card-rewards/domain/Replay"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { transaction, withinRequestDeadline } from "./Database.ts"
import { wakeEndpoints } from "./Deliveries/WakeUp.ts"
import { findEndpoint, lockEndpoint } from "./DeliveryLog/Endpoint.ts"
import { type DeliveryQuery, list } from "./DeliveryLog/List.ts"
import { redeliver } from "./DeliveryLog/Redeliver.ts"
import { findReplay, startReplay } from "./DeliveryLog/Replays.ts"
import { eventId } from "./Ledger/Writes.ts"
import { lockVault } from "./Locks.ts"
import type { RecordAction } from "./OperatorActions/RecordAction.ts"
import { integratorTime } from "./SandboxClock.ts"
import * as Tables from "./Tables.ts"
import * as Tracing from "./Tracing.ts"

/** The deliveries of an integrator's endpoint, to list and to repeat (decisions, section 9). Their times are real. */
export class DeliveryLog extends Context.Service<DeliveryLog, {
  /**
   * The live endpoint's deliveries with their attempts as they go over the wire, newest first. A page costs the same
   * wherever it is.
   */
  readonly list: (
    integratorId: IntegratorId,
    id: EndpointId,
    query: DeliveryQuery
  ) => Effect.Effect<typeof DeliveryPage.Encoded, NotFound | InvalidRequest | Unavailable>
  /**
   * A new delivery of a stored event, due at once. It has its place in the order of the reward's events. The event's
   * pending delivery is cancelled for it, unless it has not been attempted yet: then that one is the answer.
   */
  readonly redeliver: (
    integratorId: IntegratorId,
    id: EndpointId,
    eventId: string
  ) => Effect.Effect<Delivery, NotFound | Unavailable>
  /**
   * Begins to deliver stored events of a time again, in their order and behind new ones. An endpoint has one replay at
   * a time.
   */
  readonly startReplay: (
    integratorId: IntegratorId,
    id: EndpointId,
    request: ReplayRequest,
    record?: RecordAction
  ) => Effect.Effect<Replay, NotFound | InvalidRequest | ReplayRunning | Unavailable>
  /** One of the endpoint's newest 100 replays. */
  readonly findReplay: (
    integratorId: IntegratorId,
    id: EndpointId,
    replayId: string
  ) => Effect.Effect<Replay, NotFound | Unavailable>
  /** Stores a `webhook.ping` event and its delivery. Returns the event's id. */
  readonly ping: (integratorId: IntegratorId, id: EndpointId) => Effect.Effect<string, NotFound | Unavailable>
}>()("@card-rewards/core/DeliveryLog") {
  static readonly layer = Layer.effect(
    DeliveryLog,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return DeliveryLog.of({
        list: Effect.fn("DeliveryLog.list")(list, withinRequestDeadline, run),
        redeliver: Effect.fn("DeliveryLog.redeliver")((integratorId, id, event) =>
          transaction(Effect.flatMap(lockEndpoint(integratorId, id), (endpoint) =>
            redeliver(endpoint, event))).pipe(run)
        ),
        startReplay: Effect.fn("DeliveryLog.startReplay")(startReplay, run),
        findReplay: Effect.fn("DeliveryLog.findReplay")(findReplay, withinRequestDeadline, run),
        ping: Effect.fn("DeliveryLog.ping")(ping, transaction, run)
      })
    })
  )
}

const ping = Effect.fnUntraced(function*(integratorId: IntegratorId, id: EndpointId) {
  const sql = yield* SqlClient.SqlClient
  yield* lockVault(integratorId)
  yield* findEndpoint(integratorId, id)
  const createdAt = yield* integratorTime(integratorId)
  const storedAt = yield* Clock.currentTimeMillis
  const [vault] = yield* sql<{ event: bigint; salt: string }>`
    UPDATE vaults v SET events = v.events + 1 FROM integrators i
    WHERE v.integrator_id = ${integratorId} AND i.integrator_id = v.integrator_id
    RETURNING v.events AS event, i.event_salt AS salt`
  if (vault === undefined) return yield* Effect.die(new Error("an endpoint without a vault"))
  const { event, salt } = vault
  const kind: WebhookEventKind = "webhook.ping"
  const pingId = eventId(salt, event)
  const body = JSON.stringify({ id: pingId, kind, integratorId, createdAt: printTimestamp(createdAt), data: {} })
  const traceparent = yield* Tracing.traceparent
  yield* sql`${Tables.events.insert([
    { integratorId, event, eventId: pingId, kind, createdAt, storedAt, body, traceparent }
  ])}`
  yield* wakeEndpoints(sql, [integratorId], storedAt)
  return pingId
})
