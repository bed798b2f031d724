import type { InvalidRequest, Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { invalidCursor, type Page } from "@card-rewards/domain/Pagination"
import {
  maxBacklogCount,
  type Original,
  printId,
  type SpendEventBacklog,
  type WaitingSpendEvent,
  type WaitingSpendEventPage
} from "@card-rewards/domain/SpendEvent"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { Context, Effect, Layer } from "effect"
import { Base64Url } from "effect/encoding"
import { SqlClient } from "effect/sql"
import { maxInt8, value, withinRequestDeadline } from "./Database.ts"
import { Secrets } from "./Secrets.ts"
import { encodeSpendEvent, type StoredContents, storedContents } from "./StoredSpendEvent.ts"

/** Queued and waiting events; Processing/Batch.ts has a table of the states. */
export class Backlog extends Context.Service<Backlog, {
  /**
   * The waiting events in their wire format, newest first. The JSON of 100 events is less than 1 MiB, because every
   * text of an event has a maximum length.
   */
  readonly waiting: (
    integratorId: IntegratorId,
    page: Page
  ) => Effect.Effect<typeof WaitingSpendEventPage.Encoded, InvalidRequest | Unavailable>
  /**
   * Counts queued (`stored`) and waiting events, each up to {@link maxBacklogCount}, and returns when the oldest queued
   * event was received. A partly applied event counts as queued.
   */
  readonly size: (integratorId: IntegratorId) => Effect.Effect<SpendEventBacklog, Unavailable>
}>()("@card-rewards/core/Backlog") {
  static readonly layer = Layer.effect(
    Backlog,
    Effect.gen(function*() {
      const run = Effect.provideContext(yield* Effect.context<SqlClient.SqlClient | Secrets>())
      return Backlog.of({
        waiting: Effect.fn("Backlog.waiting")(waiting, withinRequestDeadline, run),
        size: Effect.fn("Backlog.size")(size, withinRequestDeadline, run)
      })
    })
  )
}

interface Row extends StoredContents {
  readonly receivedAt: number
  readonly arrival: bigint
  readonly originalKind: Original["kind"]
  readonly originalId: string
}

const waiting = Effect.fnUntraced(function*(integratorId: IntegratorId, page: Page) {
  const before = page.cursor === undefined ? undefined : yield* readCursor(integratorId, page.cursor)
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Row>`
    SELECT ${storedContents.of("e")}, e.received_at, w.arrival, w.original_kind FROM spend_event_waits w
    JOIN spend_events e ON e.integrator_id = w.integrator_id AND e.user_id = w.user_id AND e.kind = w.kind
      AND e.external_transaction_id = w.external_transaction_id
    WHERE w.integrator_id = ${integratorId} AND w.arrival < ${value.int8(before ?? maxInt8)}
    ORDER BY w.arrival DESC LIMIT ${value.int4(page.limit + 1)}`
  const shown = rows.slice(0, page.limit)
  const last = shown.at(-1)
  const spendEvents = shown.map((row): typeof WaitingSpendEvent.Encoded => {
    const event = encodeSpendEvent(row)
    return {
      id: printId(event),
      receivedAt: printTimestamp(row.receivedAt),
      waitingFor: { kind: row.originalKind, externalTransactionId: row.originalId },
      event
    }
  })
  return rows.length > page.limit && last !== undefined
    ? { spendEvents, next: yield* cursorOf(integratorId, last.arrival) }
    : { spendEvents }
})

const cursorLocation = (integratorId: IntegratorId): string => `waiting spend events of ${integratorId}`

/** Encrypted: all integrators share the sequence of arrivals, and could count each other's events. */
const cursorOf = Effect.fnUntraced(function*(integratorId: IntegratorId, arrival: bigint) {
  return Base64Url.encode(yield* (yield* Secrets).encrypt(`${arrival}`, cursorLocation(integratorId)))
})

const readCursor = Effect.fnUntraced(function*(integratorId: IntegratorId, cursor: string) {
  const { decryptText } = yield* Secrets
  return BigInt(yield* Effect.fromResult(Base64Url.decode(cursor)).pipe(
    Effect.flatMap((bytes) => decryptText(bytes, cursorLocation(integratorId))),
    Effect.mapError(invalidCursor)
  ))
})

/**
 * Counts both kinds by index scans with a limit. The first event of each lane has waited the longest of its lane, so
 * that only these events are read.
 */
const size = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ stored: number; waiting: number; oldest: number | null }>`SELECT
    (SELECT count(*)::int4 FROM (SELECT unnest(kinds) FROM spend_event_queue WHERE integrator_id = ${integratorId}
      LIMIT ${value.int4(maxBacklogCount)}) q) AS stored,
    (SELECT count(*)::int4 FROM (SELECT FROM spend_event_waits WHERE integrator_id = ${integratorId}
      LIMIT ${value.int4(maxBacklogCount)}) w) AS waiting,
    (SELECT min(e.received_at) FROM lanes l CROSS JOIN LATERAL (
      SELECT * FROM spend_event_queue q WHERE q.integrator_id = l.integrator_id AND q.lane = l.lane
      ORDER BY q.arrival LIMIT 1
    ) q JOIN spend_events e ON e.integrator_id = q.integrator_id AND e.user_id = q.user_ids[1] AND e.kind = q.kinds[1]
      AND e.external_transaction_id = q.external_transaction_ids[1]
      WHERE l.integrator_id = ${integratorId}) AS oldest`
  const { oldest = null, stored = 0, waiting = 0 } = row ?? {}
  return { stored, waiting, ...(oldest === null ? {} : { oldestStoredAt: instant(oldest) }) }
})
