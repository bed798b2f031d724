import { amount, asset } from "./Columns.ts"

/**
 * The worker's state of applied spend events, guarded by the lock of the lane's row. Its rows are updated often: with
 * room in each page for a second version of every row, the updates are heap-only (HOT) and change no index.
 */
export const statements = [
  // a lane is an integrator and a hash of the user modulo 16; every batch updates the position of each of its lanes
  `CREATE TABLE lanes (
    integrator_id text NOT NULL REFERENCES integrators,
    lane smallint NOT NULL CHECK (lane BETWEEN 0 AND 15),
    position bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (integrator_id, lane)
  ) WITH (fillfactor = 50)`,
  `CREATE TABLE authorizations (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    external_transaction_id text NOT NULL,
    occurred_at timestamptz NOT NULL,
    currency text NOT NULL,
    mcc text NOT NULL,
    -- the user's attributes as they stood at occurred_at
    tier text,
    country text,
    segment text,
    ${amount("authorized")},
    ${amount("incremented")},
    ${amount("reversed")},
    closed boolean NOT NULL,
    -- the last one of its clearings whose refunds did not all fit into the transaction that applied it
    partly_applied text,
    PRIMARY KEY (integrator_id, user_id, external_transaction_id)
  ) WITH (fillfactor = 50)`,
  // what caps count: net amounts earned by user, month, program and category ('' outside every category)
  `CREATE TABLE cap_usage (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    month integer NOT NULL,
    program_id text NOT NULL,
    category_id text NOT NULL,
    ${amount("earned")},
    PRIMARY KEY (integrator_id, user_id, month, program_id, category_id)
  ) WITH (fillfactor = 50)`,
  // Σ raw of the open amounts by user, month, program, version and category ('' outside every category)
  `CREATE TABLE open_estimates (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    month integer NOT NULL,
    program_id text NOT NULL,
    version integer NOT NULL,
    category_id text NOT NULL,
    authorizations integer NOT NULL CHECK (authorizations > 0),
    ${amount("raw")},
    PRIMARY KEY (integrator_id, user_id, month, program_id, version, category_id)
  ) WITH (fillfactor = 50)`,
  // the expected part of a balance, for its readers: the sum of a user's open estimates after caps
  `CREATE TABLE expected_balances (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    ${asset},
    ${amount("expected")},
    PRIMARY KEY (integrator_id, user_id, asset)
  ) WITH (fillfactor = 50)`,
  // integrators whose stored events are processed separately and retried after pauses; times are real
  `CREATE TABLE quarantine (
    integrator_id text PRIMARY KEY REFERENCES integrators,
    reason text NOT NULL CHECK (reason IN ('behind', 'failing', 'locked')),
    error text NOT NULL CHECK (length(error) <= 1000),
    failures integer NOT NULL,
    since timestamptz NOT NULL,
    next_attempt_at timestamptz NOT NULL
  )`
]
