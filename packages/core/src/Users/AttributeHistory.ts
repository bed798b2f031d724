import type { Attributes } from "@card-rewards/domain/User"
import { perRowSql } from "../Database/PlannerHints.ts"
import { columnList, int8, nullable, type Row } from "../Database/Table.ts"
import * as Tables from "../Tables.ts"

/** The columns of a user's attributes; null where the user has none. */
export const attributeColumns = Tables.userAttributes.pick("tier", "country", "segment")

/** The attributes of a stored row, which were validated when they were stored. */
export const attributesOf = ({ country, segment, tier }: Row<typeof attributeColumns>): Attributes =>
  Object.fromEntries(Object.entries({ tier, country, segment }).filter(([, value]) => value !== null))

/** SQL expressions for the user, the purchase time and the arrival number of an event. */
export interface PurchaseColumns {
  readonly integratorId: string
  readonly userId: string
  readonly purchaseAt: string
  readonly arrival: string
}

/**
 * SQL for the user's attribute record that applies to an event (decisions, section 5.3): the latest one stored at or
 * before the purchase time and received before the event, else the enrollment record. A subquery with one row, of
 * `arrival` and {@link attributeColumns}, for `LATERAL`.
 *
 * A user's records are stored in order of arrival (`Users.put`), so that each of the two conditions holds for a prefix
 * of them. Commonly the last record that arrived before the event was also stored before the purchase: one look-up in
 * the primary key. Otherwise it is the last record stored before the purchase: one look-up in
 * `user_attributes_by_time`. The row comparison of that look-up begins with the user, so that only this index matches
 * its order; the primary key would have to read the user's whole history.
 */
export const attributesAt = ({ arrival, integratorId, purchaseAt, userId }: PurchaseColumns): string => `(
  SELECT (record).arrival, (record).tier, (record).country, (record).segment FROM (SELECT coalesce(
    (SELECT r.h FROM (
      SELECT h, h.stored_at FROM user_attributes h
      WHERE h.integrator_id = ${integratorId} AND h.user_id = ${userId} AND h.arrival < ${arrival}
      ORDER BY h.arrival DESC LIMIT 1
    ) r WHERE r.stored_at <= ${purchaseAt}),
    (SELECT r.h FROM (
      SELECT h, h.user_id, h.arrival FROM user_attributes h
      WHERE h.integrator_id = ${integratorId}
        AND (h.user_id, h.stored_at, h.arrival) <= (${userId}, ${purchaseAt}, 9223372036854775807)
      ORDER BY h.user_id DESC, h.stored_at DESC, h.arrival DESC LIMIT 1
    ) r WHERE r.user_id = ${userId} AND r.arrival < ${arrival}),
    (SELECT h FROM user_attributes h WHERE h.integrator_id = ${integratorId} AND h.user_id = ${userId}
      ORDER BY h.arrival LIMIT 1)
  ) AS record ${perRowSql}) found
)`

const ofEvent = attributesAt({
  integratorId: "e.integrator_id",
  userId: "e.user_id",
  purchaseAt: "e.occurred_at",
  arrival: "e.arrival"
})

/**
 * {@link attributesAt} for the authorizations and clearings among spend events `e` that refer to no other event: of the
 * others `record` is null.
 */
export const purchaseAttributes = `LEFT JOIN LATERAL (
  SELECT a.arrival AS record, a.tier, a.country, a.segment FROM ${ofEvent} a WHERE e.original_id IS NULL
) a ON true`

/** The columns of {@link purchaseAttributes}. */
export const recordColumns = columnList({ record: nullable(int8()), ...attributeColumns.columns })
