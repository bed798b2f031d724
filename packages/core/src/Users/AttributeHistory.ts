import type { Attributes } from "@card-rewards/domain/User"
import { maxInt8 } from "../Database.ts"
import { perRowSql } from "../Database/PlannerHints.ts"
import { columnList, int8, nullable, type Row } from "../Database/Table.ts"
import * as Tables from "../Tables.ts"

/** The columns of a user's attributes; null where the user has none. */
export const attributeColumns = Tables.userAttributes.pick("tier", "country", "segment")

/** The attributes of a stored row, which were validated when they were stored. */
export const attributesOf = ({ country, segment, tier }: Partial<Row<typeof attributeColumns>>): Attributes => ({
  ...(typeof tier === "string" && { tier }),
  ...(typeof country === "string" && { country }),
  ...(typeof segment === "string" && { segment })
})

/**
 * SQL for the attribute record that applies to a purchase (decisions, section 5.3): the user's latest one stored at or
 * before the purchase time and received before the event, else the enrollment record. `event` is a row with
 * `integrator_id`, `user_id`, `arrival` and `occurred_at`, the purchase time. A subquery with one row, of `arrival` and
 * {@link attributeColumns}, for `LATERAL`.
 *
 * A user's records are stored in order of arrival (`Users.put`), so that each of the two conditions holds for a prefix
 * of them. Commonly the last record that arrived before the event was also stored before the purchase: one look-up in
 * the primary key. Otherwise it is the last record stored before the purchase: one look-up in
 * `user_attributes_by_time`. The row comparison of that look-up begins with the user, so that only this index matches
 * its order; the primary key would have to read the user's whole history.
 */
export const attributesAt = (event: string): string => `(
  SELECT (record).arrival, (record).tier, (record).country, (record).segment FROM (SELECT coalesce(
    (SELECT r.h FROM (
      SELECT h, h.stored_at FROM user_attributes h
      WHERE h.integrator_id = ${event}.integrator_id AND h.user_id = ${event}.user_id AND h.arrival < ${event}.arrival
      ORDER BY h.arrival DESC LIMIT 1
    ) r WHERE r.stored_at <= ${event}.occurred_at),
    (SELECT r.h FROM (
      SELECT h, h.user_id, h.arrival FROM user_attributes h
      WHERE h.integrator_id = ${event}.integrator_id
        AND (h.user_id, h.stored_at, h.arrival) <= (${event}.user_id, ${event}.occurred_at, ${maxInt8})
      ORDER BY h.user_id DESC, h.stored_at DESC, h.arrival DESC LIMIT 1
    ) r WHERE r.user_id = ${event}.user_id AND r.arrival < ${event}.arrival),
    (SELECT h FROM user_attributes h WHERE h.integrator_id = ${event}.integrator_id AND h.user_id = ${event}.user_id
      ORDER BY h.arrival LIMIT 1)
  ) AS record ${perRowSql}) found
)`

/**
 * {@link attributesAt} for the authorizations and clearings among spend events `e` that refer to no other event: of the
 * others `record` is null.
 */
export const purchaseAttributes = `LEFT JOIN LATERAL (
  SELECT a.arrival AS record, a.tier, a.country, a.segment FROM ${attributesAt("e")} a WHERE e.original_id IS NULL
) a ON true`

/** The columns of {@link purchaseAttributes}. */
export const recordColumns = columnList({ record: nullable(int8()), ...attributeColumns.columns })
