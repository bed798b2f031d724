/** Events, the endpoints that receive them, and their deliveries. */
export const statements = [
  // numbered by the vault without gaps; the primary key serves pages of all events (Events.ts)
  `CREATE TABLE events (
    integrator_id text NOT NULL,
    event bigint NOT NULL,
    event_id text NOT NULL,
    kind text NOT NULL,
    created_at timestamptz NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (integrator_id, event)
  )`,
  // pages of the events of one kind, at a cost that does not grow with the others; see Events.ts
  `CREATE INDEX events_by_kind ON events (integrator_id, kind, event)`,
  `CREATE TABLE webhook_endpoints (
    integrator_id text NOT NULL REFERENCES integrators,
    -- counts the integrator's endpoints over time: an id may be used again after its deletion
    generation integer NOT NULL,
    endpoint_id text NOT NULL,
    url text NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz,
    -- the breaker: failures in a row, and when a probe may go out (real time)
    failures integer NOT NULL DEFAULT 0,
    probe_at timestamptz,
    -- deleted, or moved to another URL: its pending deliveries are still to be cancelled, or to become due
    unsettled boolean NOT NULL DEFAULT false,
    PRIMARY KEY (integrator_id, generation)
  )`,
  // at most one live endpoint, which every transaction that makes events looks up (Ledger/Writes.ts)
  `CREATE UNIQUE INDEX webhook_endpoints_live ON webhook_endpoints (integrator_id) WHERE deleted_at IS NULL`,
  // endpoints whose change is still to be applied to their deliveries; see Deliveries/Settle.ts
  `CREATE INDEX webhook_endpoints_unsettled ON webhook_endpoints (integrator_id, generation) WHERE unsettled`,
  `CREATE TABLE webhook_secrets (
    integrator_id text NOT NULL,
    generation integer NOT NULL,
    -- from 1, the newest is the greatest
    rotation integer NOT NULL,
    -- AES-256-GCM, see Secrets.ts
    encrypted bytea NOT NULL,
    -- real time; absent for the current secret
    expires_at timestamptz,
    PRIMARY KEY (integrator_id, generation, rotation),
    FOREIGN KEY (integrator_id, generation) REFERENCES webhook_endpoints
  )`,
  // Deliveries of one moment stand side by side, and are claimed together: with more than half of each page free there
  // is room for all of their new versions, and no index changes. Vacuumed early for the sake of deliveries_due, as
  // rewards are for rewards_due.
  `CREATE TABLE deliveries (
    integrator_id text NOT NULL,
    -- from 1 for each event, more where it is delivered anew
    event bigint NOT NULL,
    round integer NOT NULL,
    generation integer NOT NULL,
    -- events of one reward go out one at a time in order of revision; absent for the vault's events
    reward bigint,
    state text NOT NULL CHECK (state IN ('pending', 'delivered', 'exhausted', 'cancelled')),
    created_at timestamptz NOT NULL,
    -- real time, as all about attempts
    next_attempt_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    -- the trace that made the delivery, absent where none was recorded; see Tracing.ts
    traceparent text,
    PRIMARY KEY (integrator_id, event, round),
    CONSTRAINT deliveries_pending_check CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL)),
    CONSTRAINT deliveries_claimed_check CHECK (claimed_until IS NULL OR state = 'pending')
  ) WITH (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on
  )`,
  // Pending is what has a time for its next attempt, and only that can be claimed. Each index fits only the statements
  // that name its condition, whatever the planner knows of the table: what is due is asked for with
  // `next_attempt_at > '-infinity'`, what a reward has pending with `next_attempt_at IS NOT NULL`, and neither with the
  // state, by which an endpoint's deliveries are listed.
  `CREATE INDEX deliveries_due ON deliveries (integrator_id, next_attempt_at, event)
    WHERE next_attempt_at > '-infinity'`,
  `CREATE INDEX deliveries_of_reward ON deliveries (integrator_id, reward, event)
    WHERE next_attempt_at IS NOT NULL AND reward IS NOT NULL`,
  // pages of an endpoint's deliveries (DeliveryLog.ts), and its pending ones when it changes (Deliveries/Settle.ts)
  `CREATE INDEX deliveries_listed ON deliveries (integrator_id, generation, state, created_at, event, round)`,
  // Without a reference to deliveries: an attempt is written by the transaction that has just changed its delivery, and
  // the reference's look-up and lock were a third of what recording cost. The audit finds attempts without a delivery.
  `CREATE TABLE delivery_attempts (
    integrator_id text NOT NULL,
    event bigint NOT NULL,
    round integer NOT NULL,
    attempt integer NOT NULL,
    at timestamptz NOT NULL,
    duration_millis integer NOT NULL,
    status integer,
    error text,
    answer text,
    PRIMARY KEY (integrator_id, event, round, attempt)
  )`
]
