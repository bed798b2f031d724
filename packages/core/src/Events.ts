import type { Unavailable } from "@card-rewards/domain/Errors"
import type { WebhookEventKind } from "@card-rewards/domain/Event"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { maxPageBytes } from "@card-rewards/domain/Pagination"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { value, withinRequestDeadline } from "./Database.ts"
import * as Tracing from "./Tracing.ts"

/** Which events a client reads. */
export interface EventQuery {
  /** The number of the last event that the client has read; 0 for none. */
  readonly after: bigint
  readonly limit: number
  readonly kind?: WebhookEventKind | undefined
}

/** Events as they are stored: the JSON of each webhook body, which no schema decodes or encodes. */
export interface StoredEventPage {
  readonly events: ReadonlyArray<string>
  readonly next: bigint
}

/** The integrator's events, including those that were never delivered. */
export class Events extends Context.Service<Events, {
  /**
   * The events after a number, oldest first: at most `limit`, and at most {@link maxPageBytes} or one event. Events are
   * numbered under the vault's lock, in order of commit, so a consumer that follows `next` reads each exactly once,
   * however many transactions write.
   */
  readonly list: (integratorId: IntegratorId, query: EventQuery) => Effect.Effect<StoredEventPage, Unavailable>
}>()("@card-rewards/core/Events") {
  static readonly layer = Layer.effect(
    Events,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      return Events.of({
        list: (integratorId, query) =>
          withinRequestDeadline(list(integratorId, query)).pipe(
            Effect.provideService(SqlClient.SqlClient, sql),
            Tracing.span("Events.list")
          )
      })
    })
  )
}

/** `body` is null beyond the page's bytes, and `event` where there is no event. */
interface Row {
  readonly event: bigint | null
  readonly body: string | null
  readonly last: bigint
}

const list = Effect.fnUntraced(function*(integratorId: IntegratorId, query: EventQuery) {
  const { after, limit } = query
  const sql = yield* SqlClient.SqlClient
  // `last` is from the same snapshot as the page: a page that is not full reaches up to it
  const rows = yield* sql<Row>`
    SELECT e.event, CASE WHEN e.bytes <= ${value.int8(BigInt(maxPageBytes))} OR e.bytes = e.own THEN e.body END AS body,
      v.events AS last
    FROM vaults v LEFT JOIN LATERAL (
      SELECT e.*, sum(e.own) OVER (ORDER BY e.event) AS bytes FROM (
        SELECT e.event, e.body, octet_length(e.body) AS own
        FROM events e WHERE e.integrator_id = v.integrator_id AND ${following(sql, query)} LIMIT ${value.int4(limit)}
      ) e
    ) e ON true WHERE v.integrator_id = ${integratorId} ORDER BY e.event`
  const shown = rows.filter(({ body }) => body !== null)
  const lastShown = shown.at(-1)?.event ?? after
  const isToTheEnd = shown.length < limit && shown.length === rows.filter(({ event }) => event !== null).length
  const next = isToTheEnd ? rows[0]?.last ?? after : lastShown
  return {
    events: shown.flatMap(({ body }) => body ?? []),
    // never smaller than `after`, even if that is beyond the last event
    next: next < after ? after : next
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
