import { value } from "@card-rewards/core/Database"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Adds integrators `many-1`, `many-2`, … without events, each with a user `ann` in lane 0 and an endpoint; 10,000 take
 * about 2 s.
 */
export const addIntegrators = Effect.fnUntraced(function*(count: number) {
  const sql = yield* SqlClient.SqlClient
  // skips the check that each of 160,000 lanes refers to an integrator
  yield* sql`SET LOCAL session_replication_role = replica`
  const all = sql`(SELECT 'many-' || n AS integrator_id FROM generate_series(1, ${value.int4(count)}) n) many`
  yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt)
    SELECT integrator_id, now(), substr(md5(integrator_id), 1, 16) FROM ${all}`
  yield* sql`INSERT INTO lanes (integrator_id, lane)
    SELECT integrator_id, lane FROM ${all}, generate_series(0, 15) lane`
  yield* sql`INSERT INTO vaults (integrator_id, vault_id) SELECT integrator_id, 'sandbox' FROM ${all}`
  yield* sql`INSERT INTO vault_balances (integrator_id, asset, held, free)
    SELECT integrator_id, asset, 0, 0 FROM ${all}, unnest(ARRAY['USDC', 'EURe']) asset`
  yield* sql`INSERT INTO users (integrator_id, user_id, enrolled_at, updated_at)
    SELECT integrator_id, 'ann', now(), now() FROM ${all}`
  yield* sql`INSERT INTO user_attributes (integrator_id, user_id, arrival, stored_at)
    SELECT integrator_id, 'ann', nextval('arrivals'), now() FROM ${all}`
  yield* sql`INSERT INTO webhook_endpoints (integrator_id, generation, endpoint_id, url, created_at, first_revision,
      revision, start, cursor)
    SELECT integrator_id, 1, 'hook', 'http://127.0.0.1:9/', now(), 1, 1, 0, 0 FROM ${all}`
  yield* sql`SET LOCAL session_replication_role = origin`
}, (effect) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(effect)))

/** Stores a clearing of `ann` for each of the first `count` integrators. */
export const storeClearings = Effect.fnUntraced(function*(count: number, externalTransactionId = "c") {
  const sql = yield* SqlClient.SqlClient
  yield* sql`WITH stored AS (
      INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
        cents, descriptor, mcc, occurred_at)
      SELECT 'many-' || n, 'ann', 'clearing', ${externalTransactionId}, 0, now() - n * interval '1 minute',
        'USD', 100, 'Shop', '5411', now()
      FROM generate_series(1, ${value.int4(count)}) n RETURNING *)
    INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
    SELECT integrator_id, lane, arrival, ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id] FROM stored`
})

/** Stores an event for each of the first `count` integrators. */
export const addEvents = Effect.fnUntraced(function*(count: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`WITH numbers AS (
      UPDATE vaults SET events = events + 1 FROM generate_series(1, ${value.int4(count)}) n
      WHERE integrator_id = 'many-' || n RETURNING integrator_id, events, n
    )
    INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
    SELECT integrator_id, events, 'evt_' || events, 'webhook.ping', at, at, '{}'
    FROM numbers CROSS JOIN LATERAL (SELECT now() - n * interval '1 minute' AS at) times`
  yield* sql`UPDATE webhook_endpoints SET work_at = now() FROM generate_series(1, ${value.int4(count)}) n
    WHERE integrator_id = 'many-' || n`
})
