import { perRowSql } from "../Database/PlannerHints.ts"
import { isOwnedSql } from "../Slots.ts"

/**
 * SQL for the first stored event of each lane that has one, of at most `maxLanes` lanes in the order of their keys:
 * `integrator_id`, `lane`, and `stored_at` in real time. Lanes of slots that the cell does not own are left out. It is
 * a loose index scan over the queue's primary key, whose cost is proportional to the lanes with work, not to the number
 * of lanes or events.
 *
 * Events are stored with their integrator's time, and an integrator may move its sandbox clock while an event waits.
 * The event then counts from the move: with the present offset of the clock it would appear older by the amount of
 * the move, and a sandbox that jumps would look like a service that is behind.
 */
export const laneHeads = (maxLanes: number): string => `
  WITH RECURSIVE head AS (
    (SELECT integrator_id, lane, user_ids[1] AS user_id, kinds[1] AS kind,
        external_transaction_ids[1] AS external_transaction_id, 1 AS ordinal
      FROM spend_event_queue ORDER BY integrator_id, lane, arrival LIMIT 1)
    UNION ALL
    SELECT following.*, h.ordinal + 1 FROM head h CROSS JOIN LATERAL (
      SELECT q.integrator_id, q.lane, q.user_ids[1], q.kinds[1], q.external_transaction_ids[1] FROM spend_event_queue q
      WHERE (q.integrator_id, q.lane) > (h.integrator_id, h.lane)
      ORDER BY q.integrator_id, q.lane, q.arrival LIMIT 1
    ) following WHERE h.ordinal < ${maxLanes}
  )
  SELECT h.integrator_id, h.lane, greatest(e.received_at, i.clock_moved_to)
    - interval '1 millisecond' * i.clock_offset_millis AS stored_at
  FROM head h
  CROSS JOIN LATERAL (
    SELECT e.received_at FROM spend_events e WHERE e.integrator_id = h.integrator_id AND e.user_id = h.user_id
      AND e.kind = h.kind AND e.external_transaction_id = h.external_transaction_id ${perRowSql}
  ) e
  CROSS JOIN LATERAL (
    SELECT i.clock_offset_millis, i.clock_moved_to FROM integrators i
    WHERE i.integrator_id = h.integrator_id ${perRowSql}
  ) i WHERE ${isOwnedSql("h.integrator_id")}`
