/** SQL expressions of an event: whose it is, its purchase time, and its number of arrival. */
export interface PurchaseColumns {
  readonly integratorId: string
  readonly userId: string
  readonly purchaseAt: string
  readonly arrival: string
}

/**
 * SQL for the arrival of the user's attribute record that holds for an event (decisions, section 5.3): the latest one
 * stored at or before the purchase time and received before the event; where there is none, the enrollment record.
 *
 * A user's records are stored in the order of their arrival (`Users.put`), so each of the two conditions holds for the
 * first records up to some point. Mostly the last record that arrived before the event was also stored before the
 * purchase: one step into the primary key. Otherwise it is the last one stored before the purchase, which arrived
 * earlier still: one step into `user_attributes_by_time`. Its row comparison begins with the user, so that no other
 * index gives its order; by the primary key the user's whole history would be read.
 */
export const recordAt = ({ arrival, integratorId, purchaseAt, userId }: PurchaseColumns): string => `coalesce(
  (SELECT r.arrival FROM (
    SELECT h.arrival, h.stored_at FROM user_attributes h
    WHERE h.integrator_id = ${integratorId} AND h.user_id = ${userId} AND h.arrival < ${arrival}
    ORDER BY h.arrival DESC LIMIT 1
  ) r WHERE r.stored_at <= ${purchaseAt}),
  (SELECT r.arrival FROM (
    SELECT h.user_id, h.arrival FROM user_attributes h
    WHERE h.integrator_id = ${integratorId}
      AND (h.user_id, h.stored_at, h.arrival) <= (${userId}, ${purchaseAt}, 9223372036854775807)
    ORDER BY h.user_id DESC, h.stored_at DESC, h.arrival DESC LIMIT 1
  ) r WHERE r.user_id = ${userId} AND r.arrival < ${arrival}),
  (SELECT h.arrival FROM user_attributes h WHERE h.integrator_id = ${integratorId} AND h.user_id = ${userId}
    ORDER BY h.arrival LIMIT 1))`
