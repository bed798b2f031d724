/** Spend events: stored once, then applied once. */
export const statements = [
  // The worker updates each row once (position, and more for a clearing). A backlog fills a page at one time and is
  // applied at one time: with room for a second version of every row, these updates are heap-only (HOT) and change no
  // index; with a quarter of each page free half of them were not.
  `CREATE TABLE spend_events (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN
      ('authorization', 'incremental_authorization', 'clearing', 'reversal', 'refund')),
    external_transaction_id text NOT NULL,
    lane smallint NOT NULL,
    arrival bigint NOT NULL DEFAULT nextval('arrivals'),
    received_at timestamptz NOT NULL,
    currency text NOT NULL,
    cents bigint NOT NULL CHECK (cents >= 0),
    descriptor text NOT NULL,
    mcc text NOT NULL,
    mid text,
    country text,
    occurred_at timestamptz NOT NULL,
    -- what authorizationId or originalTransactionId names
    original_id text,
    -- the order in which the lane's events were applied; absent until then
    position bigint,
    -- of an applied clearing: the purchase time and the sum of its refunds in its currency
    purchase_at timestamptz,
    refunded_cents numeric(78,0),
    -- the list of the programs in which it earned nothing, in unearned_lists; absent where there are none
    unearned bytea,
    -- The transaction id comes before the user: a comparison mostly ends with it, and ids that grow in time have their
    -- entries in one place. Nothing reads the events of one user; audit and simulations sort all.
    PRIMARY KEY (integrator_id, external_transaction_id, user_id, kind)
  ) WITH (fillfactor = 45)`,
  // The programs in which clearings earned nothing, and why (Processing/Unearned.ts). A list of 50 programs has 1.7 KB
  // and nearly all clearings have equal ones: each is stored once, under the first half of its SHA-256.
  `CREATE TABLE unearned_lists (
    integrator_id text NOT NULL,
    digest bytea NOT NULL,
    programs text NOT NULL,
    PRIMARY KEY (integrator_id, digest),
    CHECK (digest = substring(sha256(convert_to(programs, 'UTF8')) FOR 16))
  )`,
  // a clearing's refunds: for the explanation of its rewards, and for the audit
  `CREATE INDEX spend_events_refunds ON spend_events (integrator_id, user_id, original_id) WHERE kind = 'refund'`,
  // Events that are not applied yet, in a table of their own, so that a scan for work does not read applied events. A
  // row is a segment (Processing/Segments.ts): events that one insert stored in one lane, in order of arrival. The
  // primary key serves the loose index scan over lanes, and a lane's first events (Processing/Queue.ts, Take.ts). Most
  // segments fit into a page as they are, and are stored without compression.
  `CREATE TABLE spend_event_queue (
    integrator_id text NOT NULL,
    lane smallint NOT NULL,
    -- of the first event that the segment was stored with
    arrival bigint NOT NULL,
    -- the keys of the events
    user_ids text[] NOT NULL,
    kinds text[] NOT NULL,
    external_transaction_ids text[] NOT NULL,
    -- the trace that stored the events, absent where none was recorded; see Tracing.ts
    traceparent text,
    PRIMARY KEY (integrator_id, lane, arrival),
    CHECK (cardinality(user_ids) BETWEEN 1 AND 64 AND cardinality(kinds) = cardinality(user_ids)
      AND cardinality(external_transaction_ids) = cardinality(user_ids))
  ) WITH (toast_tuple_target = 8160)`,
  // Events received before the event that they refer to. The primary key serves the events that another event releases,
  // in order of application (Processing/Load.ts).
  `CREATE TABLE spend_event_waits (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    original_kind text NOT NULL CHECK (original_kind IN ('authorization', 'clearing')),
    original_id text NOT NULL,
    occurred_at timestamptz NOT NULL,
    arrival bigint NOT NULL,
    kind text NOT NULL,
    external_transaction_id text NOT NULL,
    PRIMARY KEY (integrator_id, user_id, original_kind, original_id, occurred_at, arrival)
  )`,
  // pages of an integrator's waiting events in order of arrival; see Backlog.ts
  `CREATE INDEX spend_event_waits_by_arrival ON spend_event_waits (integrator_id, arrival)`
]
