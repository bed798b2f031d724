import { perRowSql, retriesOfEndpoint } from "./Database/PlannerHints.ts"
import { isOwnedSql } from "./Slots.ts"

/** SQL for at most `maxEndpoints` live endpoints of owned slots with work, those that have waited longest first. */
export const endpointsWithWork = (maxEndpoints: number): string => `
  SELECT integrator_id, generation, cursor, probe_at FROM webhook_endpoints
  WHERE deleted_at IS NULL AND work_at IS NOT NULL AND ${isOwnedSql("integrator_id")}
  ORDER BY work_at LIMIT ${maxEndpoints}`

/**
 * SQL for the consumer lag of endpoints. `endpoints` is SQL for their `integrator_id`, `generation`, `cursor` and
 * `probe_at`. The columns of the result, all times real:
 *
 * - `integrator_id`, `generation`, `probe_at`: the endpoint's own;
 * - `lag`: the number of events that its cursor has not passed;
 * - `oldest_at`: when the first of these was stored; null where the lag is 0;
 * - `retry_at`: since when the oldest of its open retries is to be delivered; null where it has none.
 *
 * An endpoint costs four reads by an index, whatever the number of its events and retries.
 */
export const endpointLags = (endpoints: string): string => `
  SELECT e.integrator_id, e.generation, e.probe_at, v.events - e.cursor AS lag, next.stored_at AS oldest_at,
    least(first.created_at, repeated.created_at) AS retry_at
  FROM (${endpoints}) e
  CROSS JOIN LATERAL (SELECT v.events FROM vaults v WHERE v.integrator_id = e.integrator_id ${perRowSql}) v
  LEFT JOIN LATERAL (
    SELECT n.stored_at FROM events n WHERE n.integrator_id = e.integrator_id AND n.event > e.cursor
    ORDER BY n.event LIMIT 1
  ) next ON true
  LEFT JOIN LATERAL (
    SELECT r.created_at FROM retries r
    WHERE ${retriesOfEndpoint("r", "first")} = (e.generation, e.integrator_id) AND r.state = 'open'
    ORDER BY r.event LIMIT 1
  ) first ON true
  LEFT JOIN LATERAL (
    SELECT r.created_at FROM retries r
    WHERE ${retriesOfEndpoint("r", "repeated")} = (e.generation, e.integrator_id) AND r.state = 'open'
    ORDER BY r.created_at LIMIT 1
  ) repeated ON true`
