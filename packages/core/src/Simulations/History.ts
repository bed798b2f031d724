import type { IntegratorId, ProgramId } from "@card-rewards/domain/Ids"
import { currencyOfAsset } from "@card-rewards/domain/Money"
import type { SimulationRequest } from "@card-rewards/domain/Simulation"
import { DateTime, Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { attributesAt } from "../Users/AttributeHistory.ts"
import type { PurchaseRow, RefundRow } from "./CandidateRun.ts"

/** Rows of one page; one page is in memory at a time. */
const pageRows = 2_000

/** The purchases that a simulation reads. `from` and `to` are the bounds of whole months, because caps are monthly. */
export interface Window {
  readonly integratorId: IntegratorId
  readonly programId: ProgramId
  readonly currency: string
  readonly from: number
  readonly to: number
}

/**
 * The window of a simulation: all months that overlap its range. Earlier purchases of the first month use up its caps,
 * and so do later purchases of the last month that were processed before others.
 */
export const windowOf = (
  integratorId: IntegratorId,
  programId: ProgramId,
  { definition, from, to }: SimulationRequest
): Window => ({
  integratorId,
  programId,
  currency: currencyOfAsset[definition.asset],
  from: startOfMonth(from),
  to: DateTime.toEpochMillis(DateTime.add(DateTime.makeUnsafe(startOfMonth(to - 1)), { months: 1 }))
})

const startOfMonth = (at: number): number => DateTime.toEpochMillis(DateTime.startOf(DateTime.makeUnsafe(at), "month"))

/** Counts the purchases of a window and their refunds, up to a sum at which one of them exceeds `limit`. */
export const countEvents = Effect.fnUntraced(function*(window: Window, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ purchases: number; refunds: number }>`
    SELECT (count(*) FILTER (WHERE kind = 'clearing'))::int AS purchases,
      (count(*) FILTER (WHERE kind = 'refund'))::int AS refunds
    FROM (SELECT e.kind FROM ${eventsOf(sql, window)} LIMIT ${value.int4(2 * limit + 1)}) AS found`
  return row ?? { purchases: 0, refunds: 0 }
})

/**
 * SQL for the applied clearings of a window, which are the ones with a purchase time, and the applied refunds of each:
 * rows `e`.
 */
const eventsOf = (sql: SqlClient.SqlClient, { currency, from, integratorId, to }: Window) =>
  sql`spend_events p CROSS JOIN LATERAL (
      SELECT p.*
      UNION ALL
      SELECT f.* FROM spend_events f
      WHERE p.refunded_cents > 0 AND f.integrator_id = ${integratorId} AND f.user_id = p.user_id AND f.kind = 'refund'
        AND f.original_id = p.external_transaction_id AND f.currency = p.currency AND f.position IS NOT NULL
      ${perRow}
    ) e
    WHERE p.integrator_id = ${integratorId} AND p.kind = 'clearing' AND p.currency = ${currency}
      AND p.purchase_at >= ${value.timestamptz(from)} AND p.purchase_at < ${value.timestamptz(to)}`

/**
 * Reads the applied purchases of a window and their refunds, by user and in the order of their processing. Runs inside
 * the caller's transaction. Attributes are those of the linked authorization, else those at the purchase time
 * (decisions, section 5.3). They are looked up for each purchase: a join by user alone, which the planner prefers where
 * users have few records, would be quadratic for a user with many.
 */
export const forEachPage = Effect.fnUntraced(function*<E, R>(
  window: Window,
  apply: (rows: ReadonlyArray<PurchaseRow | RefundRow>) => Effect.Effect<void, E, R>
): Effect.fn.Return<void, E | SqlError.SqlError, R | SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DECLARE history NO SCROLL CURSOR FOR
    SELECT e.kind, e.user_id AS "userId", e.external_transaction_id AS "externalTransactionId",
      e.original_id AS "originalId", e.cents, e.mcc, e.purchase_at AS "purchaseAt", e.refunded_cents AS "refundedCents",
      coalesce(a.tier, h.tier) AS tier, coalesce(a.country, h.country) AS country,
      coalesce(a.segment, h.segment) AS segment, r.amount AS paid, r.category_id AS "paidCategory"
    FROM (SELECT e.* FROM ${eventsOf(sql, window)}) e
    LEFT JOIN LATERAL (
      SELECT a.tier, a.country, a.segment FROM authorizations a
      WHERE e.kind = 'clearing' AND a.integrator_id = e.integrator_id AND a.user_id = e.user_id
        AND a.external_transaction_id = e.original_id
      ${perRow}
    ) a ON true
    LEFT JOIN LATERAL (
      SELECT u.* FROM ${sql.literal(attributesAt("e"))} u
      WHERE e.kind = 'clearing' AND e.original_id IS NULL
    ) h ON true
    LEFT JOIN rewards r ON r.integrator_id = e.integrator_id AND r.user_id = e.user_id AND r.kind = e.kind
      AND r.external_transaction_id = e.external_transaction_id AND r.program_id = ${window.programId}
    ORDER BY e.user_id, e.position`
  while (true) {
    const rows = yield* sql<PurchaseRow | RefundRow>`FETCH ${sql.literal(`${pageRows}`)} FROM history`.withoutTransform
    if (rows.length > 0) yield* apply(rows)
    if (rows.length < pageRows) return
  }
})
