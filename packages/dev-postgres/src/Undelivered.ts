/** SQL for a row for each live endpoint that has something to be delivered. */
export const undelivered = `SELECT e.integrator_id FROM webhook_endpoints e JOIN vaults v USING (integrator_id)
  WHERE e.deleted_at IS NULL AND (e.cursor < v.events OR e.replay IS NOT NULL OR EXISTS (SELECT FROM retries r
    WHERE r.integrator_id = e.integrator_id AND r.generation = e.generation AND r.state = 'open'))`
