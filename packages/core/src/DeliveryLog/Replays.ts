import { InvalidRequest, NotFound } from "@card-rewards/domain/Errors"
import type { WebhookEventKind } from "@card-rewards/domain/Event"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { type Replay, type ReplayRequest, ReplayRunning } from "@card-rewards/domain/Replay"
import { instant } from "@card-rewards/domain/Time"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, transaction, value, withinRequestDeadline, withOneDeadline } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { wakeEndpoints } from "../Deliveries/WakeUp.ts"
import { noAction, type RecordAction } from "../OperatorActions/RecordAction.ts"
import { integratorTime } from "../SandboxClock.ts"
import * as Tracing from "../Tracing.ts"
import { type Endpoint, findEndpoint, lockEndpoint } from "./Endpoint.ts"

/** Replays of an endpoint that can be read; earlier ones are forgotten. */
const maxKept = 100

/** Events of some kinds are counted up to this number, which takes 0.03 s, or 0.2 s before a vacuum. */
const maxCounted = 100_000

/** Which events to deliver again: those with numbers after one event and up to another. */
interface Range extends Pick<Replay, "from" | "to" | "events"> {
  readonly kinds: Replay["kinds"] | undefined
  readonly afterEvent: bigint
  readonly lastEvent: bigint
}

/** Begins to deliver stored events again. What to deliver is counted before the vault is locked. */
export const startReplay = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  id: string,
  request: ReplayRequest,
  record: RecordAction = noAction
) {
  const range = yield* withinRequestDeadline(Effect.gen(function*() {
    const { from, to } = request
    if (to !== undefined && to <= from) {
      return yield* new InvalidRequest({ part: "body", message: "$.to: expected a timestamp after from" })
    }
    yield* refuseSecond(yield* findEndpoint(integratorId, id))
    return yield* toRange(integratorId, request)
  }))
  return yield* transaction(Effect.gen(function*() {
    const endpoint = yield* lockEndpoint(integratorId, id)
    yield* refuseSecond(endpoint)
    const replay = yield* insert(endpoint, range)
    yield* record("done")
    return replay
  }))
}, withOneDeadline)

/** One of the newest replays of the live endpoint. */
export const findReplay = Effect.fnUntraced(function*(integratorId: IntegratorId, id: string, replayId: string) {
  const { generation, replay } = yield* findEndpoint(integratorId, id)
  const round = Number(/^rpl_([1-9][0-9]{0,8})$/.exec(replayId)?.[1] ?? 0)
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<ReplayRow>`SELECT from_at, to_at, kinds, events FROM replays
    WHERE integrator_id = ${integratorId} AND generation = ${value.int4(generation)} AND round = ${value.int4(round)}`
  if (row === undefined) return yield* NotFound.of("replay", replayId)
  const { events, fromAt, kinds, toAt } = row
  const range = { from: instant(fromAt), to: instant(toAt), kinds: kinds ?? undefined, events: Number(events) }
  return toReplay(round, range, round === replay)
})

interface ReplayRow {
  readonly fromAt: number
  readonly toAt: number
  readonly kinds: ReadonlyArray<WebhookEventKind> | null
  readonly events: bigint
}

const idOf = (round: number): string => `rpl_${round}`

const toReplay = (
  round: number,
  { events, from, kinds, to }: Pick<Range, "from" | "to" | "kinds" | "events">,
  isRunning: boolean
): Replay => ({
  id: idOf(round),
  from,
  to,
  ...(kinds === undefined ? {} : { kinds }),
  state: isRunning ? "running" : "done",
  events
})

const refuseSecond = ({ replay }: Endpoint) =>
  replay === null
    ? Effect.void
    : Effect.fail(new ReplayRunning({ replayId: idOf(replay), message: "A replay of this endpoint is still running" }))

const toRange = Effect.fnUntraced(function*(integratorId: IntegratorId, { from, kinds, to }: ReplayRequest) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* integratorTime(integratorId)
  const afterEvent = yield* countBefore(integratorId, from)
  const lastEvent = yield* countBefore(integratorId, to)
  // In this form only the index by kind matches, whatever the statistics say. By the primary key, which also begins
  // with the integrator and has the numbers, all events of the range would be read for those of a rare kind.
  const ofKinds = sql<{ events: bigint }>`SELECT count(*) AS events FROM (
    SELECT FROM (SELECT DISTINCT kind FROM unnest(${columns.text(kinds ?? [])}) AS kind) k CROSS JOIN LATERAL (
      SELECT FROM events e WHERE e.integrator_id = ${integratorId}
        AND (e.kind, e.event) > (k.kind, ${value.int8(afterEvent)})
        AND (e.kind, e.event) <= (k.kind, ${value.int8(lastEvent)}) ${perRow}
    ) e LIMIT ${value.int4(maxCounted)}) e`
  const events = kinds === undefined ? lastEvent - afterEvent : (yield* ofKinds)[0]?.events ?? 0n
  const upTo = to ?? instant(Math.max(now, from))
  return { from, to: upTo, kinds, afterEvent, lastEvent, events: Number(events) } satisfies Range
})

/**
 * How many events were created before a time, or at all: by bisection, because events are numbered in the order of
 * their creation. Where the clocks of processes differ, events of the difference may count on either side.
 */
const countBefore = Effect.fnUntraced(function*(integratorId: IntegratorId, time: number | undefined) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ events: bigint }>`
    WITH RECURSIVE bisection (low, high) AS (
      SELECT CASE WHEN ${value.timestamptz(time)} IS NULL THEN v.events ELSE 0 END, v.events
      FROM vaults v WHERE v.integrator_id = ${integratorId}
      UNION ALL
      SELECT CASE WHEN m.is_before THEN m.middle ELSE m.low END, CASE WHEN m.is_before THEN m.high ELSE m.middle - 1 END
      FROM (
        SELECT low, high, middle, (SELECT e.created_at < ${value.timestamptz(time)} FROM events e
          WHERE e.integrator_id = ${integratorId} AND e.event = middle) AS is_before
        FROM (SELECT low, high, (low + high + 1) / 2 AS middle FROM bisection WHERE low < high) b
      ) m
    )
    SELECT low AS events FROM bisection WHERE low = high`
  return row?.events ?? 0n
})

/** Inside the caller's transaction, which has locked the endpoint. */
const insert = Effect.fnUntraced(function*(endpoint: Endpoint, range: Range) {
  const { generation, integratorId } = endpoint
  const { afterEvent, events, from, kinds, lastEvent, to } = range
  const sql = yield* SqlClient.SqlClient
  const ofEndpoint = sql`integrator_id = ${integratorId} AND generation = ${value.int4(generation)}`
  const isRunning = events > 0
  const round = endpoint.round + 1
  yield* sql`INSERT INTO replays
      (integrator_id, round, generation, from_at, to_at, after_event, last_event, kinds, events, traceparent)
    VALUES (${integratorId}, ${value.int4(round)}, ${value.int4(generation)}, ${value.timestamptz(from)},
      ${value.timestamptz(to)}, ${value.int8(afterEvent)}, ${value.int8(lastEvent)},
      nullif(${columns.text(kinds ?? [])}, '{}'), ${value.int8(BigInt(events))},
      ${value.text(yield* Tracing.traceparent)})`
  yield* sql`UPDATE webhook_endpoints SET round = ${value.int4(round)},
    replay = ${value.int4(isRunning ? round : null)}, replay_cursor = ${value.int8(isRunning ? afterEvent : null)}
    WHERE ${ofEndpoint}`
  yield* sql`DELETE FROM replays WHERE ${ofEndpoint} AND round <= (
    SELECT round FROM replays WHERE ${ofEndpoint} ORDER BY round DESC OFFSET ${value.int4(maxKept)} LIMIT 1)`
  if (isRunning) yield* wakeEndpoints(sql, [integratorId], yield* Clock.currentTimeMillis)
  return toReplay(round, range, isRunning)
})
