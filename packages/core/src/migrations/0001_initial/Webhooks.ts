import { keepAttempts } from "./KeepAttempts.ts"

/** Events, the endpoints that consume them, and the exceptions and attempts of their delivery. */
export const statements = [
  // Numbered by the vault without gaps; the primary key serves consumers and pages of all events (Events.ts). Rows of
  // one transaction stand side by side and are never updated.
  `CREATE TABLE events (
    integrator_id text NOT NULL,
    event bigint NOT NULL,
    event_id text NOT NULL,
    kind text NOT NULL,
    created_at timestamptz NOT NULL,
    -- real time, as all about deliveries
    stored_at timestamptz NOT NULL,
    body text NOT NULL,
    -- the order of creation of its reward, whose events are delivered in order; absent for the vault's events
    reward bigint,
    -- the trace that stored the event, absent where none was recorded; see Tracing.ts
    traceparent text,
    PRIMARY KEY (integrator_id, event)
  )`,
  // pages of the events of one kind, at a cost that does not grow with the others; see Events.ts
  `CREATE INDEX events_by_kind ON events (integrator_id, kind, event)`,
  // A consumer of its integrator's events. Its cursor changes with each record: half of each page is kept free for the
  // new versions, and no index has a column of them.
  `CREATE TABLE webhook_endpoints (
    integrator_id text NOT NULL REFERENCES integrators,
    -- counts the integrator's endpoints over time: an id may be used again after its deletion
    generation integer NOT NULL,
    endpoint_id text NOT NULL,
    url text NOT NULL,
    -- counts the URLs of the integrator's endpoints: retries of an earlier one are due
    revision integer NOT NULL,
    first_revision integer NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz,
    -- the last event stored before the endpoint, which gets only later ones
    start bigint NOT NULL,
    -- each event from the start up to here was delivered, or is a row of retries
    cursor bigint NOT NULL,
    -- the lease: its worker, and its fencing token, which grows with each lease
    worker text,
    token bigint NOT NULL DEFAULT 0,
    -- when a worker may lease it: the lease's end, or when there is work; absent where there is none (real time)
    work_at timestamptz,
    -- the breaker: failures in a row, and while it is open when a probe may be sent (real time)
    failures integer NOT NULL DEFAULT 0,
    probe_at timestamptz,
    -- the last round that a redelivery or a replay was given, over all of the integrator's endpoints
    round integer NOT NULL DEFAULT 1,
    -- the replay that runs, and up to which event all of its events were delivered, or are rows of retries
    replay integer,
    replay_cursor bigint,
    PRIMARY KEY (integrator_id, generation),
    CONSTRAINT webhook_endpoints_replay_check CHECK ((replay IS NULL) = (replay_cursor IS NULL)),
    CONSTRAINT webhook_endpoints_lease_check CHECK (worker IS NULL OR work_at IS NOT NULL)
  ) WITH (fillfactor = 50)`,
  // at most one live endpoint, which every transaction that stores events looks up (Ledger/Writes.ts)
  `CREATE UNIQUE INDEX webhook_endpoints_live ON webhook_endpoints (integrator_id) WHERE deleted_at IS NULL`,
  // endpoints with work, whatever the number of those without; of deleted ones the work is to remove their retries
  `CREATE INDEX webhook_endpoints_work ON webhook_endpoints (work_at, integrator_id)
    WHERE work_at IS NOT NULL AND deleted_at IS NULL`,
  `CREATE INDEX webhook_endpoints_deleted ON webhook_endpoints (work_at, integrator_id)
    WHERE work_at IS NOT NULL AND deleted_at IS NOT NULL`,
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
  // Which stored events an endpoint gets again; it runs while it is the endpoint's replay.
  `CREATE TABLE replays (
    integrator_id text NOT NULL,
    -- the round of all of its deliveries
    round integer NOT NULL,
    generation integer NOT NULL,
    -- by the events' time of creation; their numbers are after_event + 1 to last_event
    from_at timestamptz NOT NULL,
    to_at timestamptz NOT NULL,
    after_event bigint NOT NULL,
    last_event bigint NOT NULL,
    -- absent for all kinds
    kinds text[],
    -- how many events it has
    events bigint NOT NULL,
    traceparent text,
    PRIMARY KEY (integrator_id, round),
    FOREIGN KEY (integrator_id, generation) REFERENCES webhook_endpoints
  )`,
  // The exceptions: events whose attempt failed, that wait for an earlier event of their reward, that are to be
  // delivered again, and what became of these. Vacuumed early for the sake of retries_due, as rewards are.
  `CREATE TABLE retries (
    integrator_id text NOT NULL,
    generation integer NOT NULL,
    event bigint NOT NULL,
    -- 1 for the first delivery of an event, more where it is delivered again; see webhook_endpoints.round
    round integer NOT NULL,
    reward bigint,
    state text NOT NULL CHECK (state IN ('open', 'delivered', 'exhausted', 'cancelled')),
    attempts integer NOT NULL,
    -- absent while it waits for an earlier event of its reward, and once it is not open
    next_attempt_at timestamptz,
    -- the endpoint's revision when that was set
    revision integer NOT NULL,
    -- when this delivery began (real time, as all about attempts)
    created_at timestamptz NOT NULL,
    traceparent text,
    CONSTRAINT retries_open_check CHECK (state = 'open' OR next_attempt_at IS NULL)
  ) WITH (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on
  )`,
  // While the table is nearly empty, or was when it was last analysed, all of its indexes cost the same, and the
  // planner takes the newest one, or the lowest, that has a column of the statement, whether it is the first one or
  // not. So all but the primary key have a form that fits only the statements for which they are made. Of these two,
  // one has each retry: for pages of an endpoint's deliveries (DeliveryLog.ts), and what a deleted one leaves
  // (Deliveries/Purge.ts). See `retriesOfEndpoint`.
  `CREATE INDEX retries_first ON retries
    (generation, integrator_id COLLATE "POSIX", state, event) WHERE least(round, 2) = 1`,
  `CREATE INDEX retries_repeated ON retries
    (generation, integrator_id COLLATE "POSIX", state, created_at, event, round) WHERE least(round, 2) = 2`,
  `ALTER TABLE retries ADD PRIMARY KEY (integrator_id, event, round)`,
  // Their statements name the integrator, and the generation, as these do. The second one has the open retries of each
  // reward in order, and finds those of an event, also of one without a reward, whatever number is closed.
  `CREATE INDEX retries_due ON retries ((integrator_id || ''), revision, next_attempt_at, event)
    WHERE next_attempt_at > '-infinity'`,
  `CREATE INDEX retries_open ON retries
    ((integrator_id || ''), (coalesce(reward, -event)), (generation + 0), event, round) WHERE state = 'open'`,
  // Append-only, a partition for each week; see KeepAttempts.ts.
  `CREATE TABLE delivery_attempts (
    integrator_id text NOT NULL,
    event bigint NOT NULL,
    round integer NOT NULL,
    attempt integer NOT NULL,
    at timestamptz NOT NULL,
    duration_millis integer NOT NULL,
    status integer,
    error text,
    -- how the receiver's answer begins; for support, read by no code
    answer text,
    PRIMARY KEY (integrator_id, event, round, attempt, at)
  ) PARTITION BY RANGE (at)`,
  `CREATE TABLE delivery_attempts_other PARTITION OF delivery_attempts DEFAULT`,
  ...keepAttempts
]
