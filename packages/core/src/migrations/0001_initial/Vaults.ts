import { amount, asset, movements } from "./Columns.ts"

/** The vault: one per integrator. Its row's lock guards every reward, balance, journal row and event. */
export const statements = [
  // every transaction that moves money updates the vault's row and its balances: half of each page is free for that
  `CREATE TABLE vaults (
    integrator_id text PRIMARY KEY REFERENCES integrators,
    vault_id text NOT NULL CHECK (vault_id IN ('sandbox', 'production')),
    -- counters without gaps, in order of commit
    rewards bigint NOT NULL DEFAULT 0,
    entries bigint NOT NULL DEFAULT 0,
    events bigint NOT NULL DEFAULT 0,
    -- real time at which the worker's next work on the vault is due; absent where there is none
    work_at timestamptz
  ) WITH (fillfactor = 50)`,
  // the vault whose work is due first; see Processing/VaultWork.ts
  `CREATE INDEX vaults_work ON vaults (work_at) WHERE work_at IS NOT NULL`,
  // Free money that covers waiting rewards leaves `free` at once. Where these are too many for one transaction, the
  // money stays in `assigned` until the rewards up to `assigned_to` are reserved.
  `CREATE TABLE vault_balances (
    integrator_id text NOT NULL REFERENCES vaults,
    ${asset},
    ${amount("held")},
    ${amount("free", "free >= 0 AND free <= held")},
    assigned numeric(78,0) NOT NULL DEFAULT 0 CHECK (assigned >= 0),
    -- the creation of the last reward that the assigned money is for
    assigned_to bigint NOT NULL DEFAULT 0 CHECK (assigned_to >= 0),
    -- the integrator's time of the last assignment: rewards that were due by then mature as they are reserved
    assigned_at timestamptz,
    -- the UTC day of the last change, in days since 1970, and all movements of the asset until now (Statement.ts)
    day integer,
    ${movements},
    -- free money that falls below it causes an event vault.low_funds
    low_funds numeric(78,0) CHECK (low_funds >= 0),
    PRIMARY KEY (integrator_id, asset),
    CHECK (free + assigned <= held),
    CHECK (held = deposits - withdrawals - claims)
  ) WITH (fillfactor = 50)`,
  // The vault at the end of each day on which it changed: stored once by the first change of a later day, or the first
  // statement that shows the day, and never updated. Statements read one row for each of their days (Statements.ts).
  `CREATE TABLE vault_days (
    integrator_id text NOT NULL,
    ${asset},
    day integer NOT NULL,
    ${amount("free")},
    ${movements},
    PRIMARY KEY (integrator_id, asset, day)
  )`,
  // deposits, withdrawals and claims by the integrator's reference, which makes a repeated request the same operation
  `CREATE TABLE vault_operations (
    integrator_id text NOT NULL REFERENCES vaults,
    reference text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('deposit', 'withdrawal', 'claim')),
    ${asset},
    ${amount("amount", "amount > 0")},
    user_id text CHECK ((user_id IS NOT NULL) = (kind = 'claim')),
    -- the integrator's time; for support, read by no code
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (integrator_id, reference)
  )`,
  // sums of waiting rewards by blocks of 256 creations, to find which rewards free money covers without reading each
  // of them (Ledger/Covered.ts, WriteBalances.ts)
  `CREATE TABLE waiting_sums (
    integrator_id text NOT NULL,
    ${asset},
    block bigint NOT NULL,
    ${amount("amount")},
    PRIMARY KEY (integrator_id, asset, block)
  )`,
  // the part of a claim that balances, vault and journal show as paid, and the rewards do not yet
  `CREATE TABLE payouts (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    ${asset},
    reference text NOT NULL,
    ${amount("amount", "amount > 0")},
    PRIMARY KEY (integrator_id, user_id, asset)
  )`
]
