import type { Unavailable } from "@card-rewards/domain/Errors"
import { type EventPage, WebhookEvent, type WebhookEventKind } from "@card-rewards/domain/Event"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"

/** Which events a client reads. */
export interface EventQuery {
  /** The number of the last event that the client has read; 0 for none. */
  readonly after: bigint
  readonly limit: number
  readonly kind?: WebhookEventKind | undefined
}

/** The integrator's events, also those that were never delivered. */
export class Events extends Context.Service<Events, {
  /**
   * The events after a number, oldest first. Events are numbered under the vault's lock, in order of commit, so who
   * follows `next` sees each exactly once, however many write.
   */
  readonly list: (integratorId: IntegratorId, query: EventQuery) => Effect.Effect<EventPage, Unavailable>
}>()("@card-rewards/core/Events") {
  static readonly layer = Layer.effect(
    Events,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      return Events.of({
        list: Effect.fn("Events.list")((integratorId, query) =>
          Database.withinRequestDeadline(list(integratorId, query)).pipe(
            Effect.provideService(SqlClient.SqlClient, sql)
          )
        )
      })
    })
  )
}

const decode = Schema.decodeSync(Schema.fromJsonString(WebhookEvent))

const list = Effect.fnUntraced(function*(integratorId: IntegratorId, query: EventQuery) {
  const { after, limit } = query
  const sql = yield* SqlClient.SqlClient
  // `last` is of the same snapshot as the page: a page that is not full goes up to it
  const rows = yield* sql<{ event: bigint; body: string | null; last: bigint }>`
    SELECT e.event, e.body, v.events AS last FROM vaults v LEFT JOIN LATERAL (
      SELECT e.event, e.body FROM events e WHERE e.integrator_id = v.integrator_id AND ${following(sql, query)}
      LIMIT ${value.int4(limit)}
    ) e ON true WHERE v.integrator_id = ${integratorId} ORDER BY e.event`
  const found = rows.filter((row) => row.body !== null)
  const next = found.length < limit ? rows[0]?.last : found.at(-1)?.event
  return {
    events: found.map((row) => decode(row.body ?? "")),
    // never back, also for a follower that asks beyond the last event
    next: next === undefined || next < after ? after : next
  }
})

/**
 * SQL for the events `e` after a number, in order. Each of the two forms matches exactly one index, whatever the
 * statistics say. A test of the kind by equality would also match the primary key, by which a page of a rare kind would
 * read all events between two of that kind.
 */
const following = (sql: SqlClient.SqlClient, { after, kind }: EventQuery) =>
  kind === undefined
    ? sql`e.event > ${value.int8(after)} ORDER BY e.event`
    : sql`(e.kind, e.event) > (${value.text(kind)}, ${value.int8(after)}) AND e.kind <= ${value.text(kind)}
        ORDER BY e.kind, e.event`
