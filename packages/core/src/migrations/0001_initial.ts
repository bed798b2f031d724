import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Every table's primary key begins with `integrator_id` (integrators and the look-up of key hashes aside), so that an
 * integrator's rows are one shard. Amounts are smallest units in `numeric(78,0)`, spend is minor units in `bigint`.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const amount = (name: string, check = `${name} >= 0`) => `${name} numeric(78,0) NOT NULL CHECK (${check})`
const asset = "asset text NOT NULL CHECK (asset IN ('USDC', 'EURe'))"
const kind = `kind text NOT NULL CHECK (kind IN
  ('authorization', 'incremental_authorization', 'clearing', 'reversal', 'refund'))`

const statements = [
  // ---- integrators and their keys
  `CREATE TABLE integrators (
    integrator_id text PRIMARY KEY,
    created_at timestamptz NOT NULL,
    suspended_at timestamptz,
    -- how far the sandbox clock is ahead of real time, and the last instant it was moved to
    clock_offset_millis bigint NOT NULL DEFAULT 0 CHECK (clock_offset_millis >= 0),
    clock_moved_to timestamptz,
    -- grows with each publication, so that who caches programs knows when to read them again
    programs_revision bigint NOT NULL DEFAULT 0,
    -- makes event ids unique beyond the integrator
    event_salt text NOT NULL CHECK (event_salt ~ '^[0-9a-f]{16}$')
  )`,
  `CREATE TABLE api_keys (
    integrator_id text NOT NULL REFERENCES integrators,
    name text NOT NULL,
    key_hash bytea NOT NULL CHECK (length(key_hash) = 32),
    last4 text NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    last_used_at timestamptz,
    PRIMARY KEY (integrator_id, name)
  )`,
  `CREATE TABLE api_key_hashes (
    key_hash bytea PRIMARY KEY,
    integrator_id text NOT NULL,
    name text NOT NULL,
    FOREIGN KEY (integrator_id, name) REFERENCES api_keys
  )`,
  // ---- users
  `CREATE TABLE users (
    integrator_id text NOT NULL REFERENCES integrators,
    user_id text NOT NULL,
    lane smallint NOT NULL CHECK (lane BETWEEN 0 AND 15),
    tier text,
    country text,
    segment text,
    referred_by text,
    enrolled_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (integrator_id, user_id),
    FOREIGN KEY (integrator_id, referred_by) REFERENCES users (integrator_id, user_id),
    CHECK (referred_by <> user_id)
  )`,
  // the order in which spend events and attribute records were received
  `CREATE SEQUENCE arrivals`,
  `CREATE TABLE user_attributes (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    arrival bigint NOT NULL,
    stored_at timestamptz NOT NULL,
    tier text,
    country text,
    segment text,
    PRIMARY KEY (integrator_id, user_id, arrival),
    FOREIGN KEY (integrator_id, user_id) REFERENCES users
  )`,
  // ---- programs
  `CREATE TABLE programs (
    integrator_id text NOT NULL REFERENCES integrators,
    program_id text NOT NULL,
    asset text NOT NULL CHECK (asset IN ('USDC', 'EURe')),
    PRIMARY KEY (integrator_id, program_id)
  )`,
  `CREATE TABLE program_versions (
    integrator_id text NOT NULL,
    program_id text NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    effective_from timestamptz NOT NULL,
    published_at timestamptz NOT NULL,
    definition jsonb NOT NULL,
    PRIMARY KEY (integrator_id, program_id, version),
    FOREIGN KEY (integrator_id, program_id) REFERENCES programs
  )`,
  // ---- spend events: stored, then applied once; what waits for its original stands in spend_event_waits
  `CREATE TABLE spend_events (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    ${kind},
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
    PRIMARY KEY (integrator_id, user_id, kind, external_transaction_id)
  ) WITH (fillfactor = 75)`,
  `CREATE INDEX spend_events_refunds ON spend_events (integrator_id, user_id, original_id) WHERE kind = 'refund'`,
  `CREATE TABLE spend_event_queue (
    integrator_id text NOT NULL,
    lane smallint NOT NULL,
    arrival bigint NOT NULL,
    user_id text NOT NULL,
    kind text NOT NULL,
    external_transaction_id text NOT NULL,
    PRIMARY KEY (integrator_id, lane, arrival)
  )`,
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
  `CREATE INDEX spend_event_waits_by_arrival ON spend_event_waits (integrator_id, arrival)`,
  // ---- lanes: (integrator, hash of the user modulo 16); the row's lock guards all that follows up to the vault
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
    PRIMARY KEY (integrator_id, user_id, external_transaction_id)
  ) WITH (fillfactor = 80)`,
  // net amounts earned by user, month and program; category '' is the whole month
  `CREATE TABLE cap_usage (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    month integer NOT NULL,
    program_id text NOT NULL,
    category_id text NOT NULL,
    ${amount("used")},
    PRIMARY KEY (integrator_id, user_id, month, program_id, category_id)
  ) WITH (fillfactor = 80)`,
  // Σ raw of the open authorizations by user, month, program, version and category ('' outside every category)
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
  ) WITH (fillfactor = 80)`,
  `CREATE TABLE expected_balances (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    ${asset},
    ${amount("expected")},
    PRIMARY KEY (integrator_id, user_id, asset)
  ) WITH (fillfactor = 80)`,
  // ---- the vault: one per integrator. Its row's lock guards every reward, balance, journal row and event
  `CREATE TABLE vaults (
    integrator_id text PRIMARY KEY REFERENCES integrators,
    vault_id text NOT NULL CHECK (vault_id IN ('sandbox', 'production')),
    -- counters without gaps, in order of commit
    rewards bigint NOT NULL DEFAULT 0,
    entries bigint NOT NULL DEFAULT 0,
    events bigint NOT NULL DEFAULT 0
  ) WITH (fillfactor = 50)`,
  `CREATE TABLE vault_balances (
    integrator_id text NOT NULL REFERENCES vaults,
    ${asset},
    ${amount("held")},
    ${amount("free", "free >= 0 AND free <= held")},
    PRIMARY KEY (integrator_id, asset)
  ) WITH (fillfactor = 50)`,
  `CREATE TABLE vault_operations (
    integrator_id text NOT NULL REFERENCES vaults,
    reference text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('deposit', 'withdrawal', 'claim')),
    ${asset},
    ${amount("amount", "amount > 0")},
    user_id text CHECK ((user_id IS NOT NULL) = (kind = 'claim')),
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (integrator_id, reference)
  )`,
  `CREATE TABLE rewards (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    kind text NOT NULL,
    external_transaction_id text NOT NULL,
    program_id text NOT NULL,
    program_version integer NOT NULL,
    -- order of creation in the vault, from 1
    creation bigint NOT NULL,
    ${asset},
    state text NOT NULL CHECK (state IN ('AwaitingFunding', 'Pending', 'Claimable', 'Paid', 'Refunded')),
    category_id text,
    purchase_at timestamptz NOT NULL,
    currency text NOT NULL,
    spend bigint NOT NULL CHECK (spend > 0),
    refunded_spend bigint NOT NULL CHECK (refunded_spend BETWEEN 0 AND spend),
    ${amount("earned", "earned > 0")},
    ${amount("amount", "amount BETWEEN 0 AND earned")},
    ${amount("paid")},
    ${amount("recovered")},
    ${amount("clawed_back")},
    -- what the caps had counted before this reward, for its explanation
    ${amount("month_used_before")},
    ${amount("category_used_before")},
    claimable_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    revision integer NOT NULL CHECK (revision > 0),
    PRIMARY KEY (integrator_id, user_id, kind, external_transaction_id, program_id),
    UNIQUE (integrator_id, user_id, creation),
    CHECK (amount - paid - recovered + clawed_back >= 0),
    CHECK (state IN ('Pending', 'Claimable', 'AwaitingFunding') = (amount - paid - recovered + clawed_back > 0)),
    CHECK (state <> 'AwaitingFunding' OR (paid = 0 AND recovered = 0 AND clawed_back = 0)),
    CHECK (state <> 'Refunded' OR amount = 0)
  ) WITH (fillfactor = 80)`,
  `CREATE INDEX rewards_waiting ON rewards (integrator_id, asset, creation) WHERE state = 'AwaitingFunding'`,
  `CREATE INDEX rewards_due ON rewards (integrator_id, claimable_at, creation) WHERE state = 'Pending'`,
  `CREATE INDEX rewards_unpaid ON rewards (integrator_id, user_id, asset, claimable_at, creation)
    WHERE state IN ('Pending', 'Claimable')`,
  `CREATE TABLE user_balances (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    ${asset},
    ${amount("awaiting_funding")},
    ${amount("pending")},
    ${amount("claimable")},
    ${amount("paid")},
    ${amount("owed")},
    PRIMARY KEY (integrator_id, user_id, asset)
  ) WITH (fillfactor = 70)`,
  `CREATE INDEX user_balances_owing ON user_balances (integrator_id, asset) WHERE owed > 0`,
  // ---- the journal: append-only, double entry
  `CREATE TABLE journal (
    integrator_id text NOT NULL,
    entry bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    ${asset},
    from_account text NOT NULL,
    to_account text NOT NULL CHECK (to_account <> from_account),
    ${amount("amount", "amount > 0")},
    -- whose pending, claimable, ... account it is; absent for the vault's own
    user_id text,
    -- what moved it: a reward's order of creation, or the reference of an operation
    reward bigint,
    reference text,
    PRIMARY KEY (integrator_id, entry)
  )`,
  `CREATE INDEX journal_recoveries ON journal (integrator_id, reward) WHERE from_account = 'owed'`,
  `CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$`,
  `CREATE TRIGGER journal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON journal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()`,
  // ---- events, and their way out
  `CREATE TABLE events (
    integrator_id text NOT NULL,
    event bigint NOT NULL,
    event_id text NOT NULL,
    kind text NOT NULL,
    created_at timestamptz NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (integrator_id, event)
  )`,
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
    PRIMARY KEY (integrator_id, generation)
  )`,
  `CREATE UNIQUE INDEX webhook_endpoints_live ON webhook_endpoints (integrator_id) WHERE deleted_at IS NULL`,
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
    PRIMARY KEY (integrator_id, event, round)
  ) WITH (fillfactor = 70)`,
  `CREATE INDEX deliveries_due ON deliveries (integrator_id, next_attempt_at, event) WHERE state = 'pending'`,
  `CREATE INDEX deliveries_of_reward ON deliveries (integrator_id, reward, event)
    WHERE state = 'pending' AND reward IS NOT NULL`,
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
    PRIMARY KEY (integrator_id, event, round, attempt),
    FOREIGN KEY (integrator_id, event, round) REFERENCES deliveries
  )`
]
