/** Integrators and their API keys. */
export const statements = [
  `CREATE TABLE integrators (
    integrator_id text PRIMARY KEY,
    created_at timestamptz NOT NULL,
    suspended_at timestamptz,
    -- how far the sandbox clock is ahead of real time, and the last instant it was moved to
    clock_offset_millis bigint NOT NULL DEFAULT 0 CHECK (clock_offset_millis >= 0),
    clock_moved_to timestamptz,
    -- grows with each publication: a process that caches programs reads only what is newer
    programs_revision bigint NOT NULL DEFAULT 0,
    -- makes event ids unique beyond the integrator
    event_salt text NOT NULL CHECK (event_salt ~ '^[0-9a-f]{16}$')
  )`,
  // the clocks that were moved, which inserts of spend events look for
  `CREATE INDEX integrators_with_moved_clocks ON integrators (integrator_id) INCLUDE (clock_offset_millis)
    WHERE clock_offset_millis > 0`,
  // the keys as an integrator manages them: listed, created and revoked by name
  `CREATE TABLE api_keys (
    integrator_id text NOT NULL REFERENCES integrators,
    name text NOT NULL,
    last4 text NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    last_used_at timestamptz,
    PRIMARY KEY (integrator_id, name)
  )`,
  // the look-up of a request's key, whose integrator is not known yet; the primary key serves it
  `CREATE TABLE api_key_hashes (
    key_hash bytea PRIMARY KEY CHECK (length(key_hash) = 32),
    integrator_id text NOT NULL,
    name text NOT NULL,
    FOREIGN KEY (integrator_id, name) REFERENCES api_keys
  )`,
  // the hash of a key that is deleted, as a move of the integrator does
  `CREATE INDEX api_key_hashes_by_name ON api_key_hashes (integrator_id, name)`
]
