import { amount, asset } from "./Columns.ts"

/** Rewards, the balances that sum them up, and the journal. */
export const statements = [
  // A reward's state and amounts are updated over its lifetime: a fifth of each page is free for that. Every search for
  // due rewards, several per second, skips the dead entries of rewards_due at 10 to 30 ns each. With PostgreSQL's
  // defaults these may amount to a fifth of a table that only grows. Here autovacuum removes them at one percent, and
  // cleans the indexes even where so few pages have changed that it would skip them by default. It also does at as many
  // new rows: only of pages that it has seen are rewards read from an index alone.
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
    CHECK (amount - paid - recovered + clawed_back >= 0),
    CHECK (state IN ('Pending', 'Claimable', 'AwaitingFunding') = (amount - paid - recovered + clawed_back > 0)),
    CHECK (state <> 'AwaitingFunding' OR (paid = 0 AND recovered = 0 AND clawed_back = 0)),
    CHECK (state <> 'Refunded' OR amount = 0)
  ) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on,
    autovacuum_vacuum_insert_scale_factor = 0.01, autovacuum_vacuum_insert_threshold = 20000
  )`,
  // A user's rewards in order of creation, for pages (Rewards.ts) and look-ups, with all that a page shows: they are
  // each on another page of the table, but in one place of this index. See PlannerHints.ts for the collation.
  `CREATE UNIQUE INDEX rewards_of_user ON rewards (integrator_id COLLATE "POSIX", user_id COLLATE "POSIX", creation)
    INCLUDE (kind, external_transaction_id, program_id, program_version, asset, state, currency, spend, refunded_spend,
      earned, amount, paid, recovered, clawed_back, claimable_at, created_at, updated_at, revision)`,
  // rewards that free money is assigned to, in order of creation; with their amounts, so that a million of them are
  // added up from the index alone (Ledger/Funding.ts, Ledger/Due.ts)
  `CREATE INDEX rewards_waiting ON rewards (integrator_id, asset, creation) INCLUDE (amount)
    WHERE state = 'AwaitingFunding'`,
  // a user's waiting rewards, when that user's money changes (Ledger/Pages.ts, Ledger/WriteBalances.ts)
  `CREATE INDEX rewards_waiting_of_user ON rewards (integrator_id, user_id, asset, creation)
    WHERE state = 'AwaitingFunding'`,
  // an integrator's due rewards, for the worker (Ledger/Due.ts), and its next due time (Ledger/WriteBalances.ts)
  `CREATE INDEX rewards_due ON rewards (integrator_id, claimable_at, creation) WHERE state = 'Pending'`,
  // A user's due rewards, when that user's money changes (Ledger/Pages.ts), and those that a claim pays
  // (Ledger/Payouts.ts): one index for each state, so that neither search has to skip the other's rewards.
  `CREATE INDEX rewards_pending_of_user ON rewards (integrator_id, user_id, asset, claimable_at, creation)
    WHERE state = 'Pending'`,
  `CREATE INDEX rewards_claimable_of_user ON rewards (integrator_id, user_id, asset, claimable_at, creation)
    WHERE state = 'Claimable'`,
  // every change of a user's rewards updates the user's balance: half of each page is free for that
  `CREATE TABLE user_balances (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    ${asset},
    ${amount("awaiting_funding")},
    ${amount("pending")},
    ${amount("claimable")},
    ${amount("paid")},
    ${amount("owed")},
    -- the user's first Pending reward by (claimable_at, creation), and the creation of the first AwaitingFunding one
    due_at timestamptz,
    due_creation bigint,
    first_waiting bigint,
    PRIMARY KEY (integrator_id, user_id, asset)
  ) WITH (fillfactor = 50)`,
  // sums over the users who owe; see Vitals.ts
  `CREATE INDEX user_balances_owing ON user_balances (integrator_id, asset) WHERE owed > 0`,
  // Users who owe, by the first reward that can be recovered from (Ledger/Load.ts, UpToDate.ts): due ones in order of
  // time, waiting ones in order of creation. Users without such a reward are in neither index.
  `CREATE INDEX user_balances_recoverable ON user_balances (integrator_id, asset, due_at, due_creation)
    WHERE owed > 0 AND due_at IS NOT NULL`,
  `CREATE INDEX user_balances_assignable ON user_balances (integrator_id, asset, first_waiting)
    WHERE owed > 0 AND first_waiting IS NOT NULL`,
  // append-only, double entry; no role may change or delete a row (Roles.ts)
  `CREATE TABLE journal (
    integrator_id text NOT NULL,
    -- seals begin with entry 1, and print no era
    entry bigint NOT NULL CHECK (entry > 0),
    recorded_at timestamptz NOT NULL CHECK (recorded_at >= '0001-01-01T00:00:00Z'),
    ${asset},
    from_account text NOT NULL,
    to_account text NOT NULL CHECK (to_account <> from_account),
    ${amount("amount", "amount > 0")},
    -- the user of a pending, claimable, … account; absent for the vault's own
    user_id text,
    -- what moved it: a reward's order of creation, or the reference of an operation
    reward bigint,
    reference text,
    PRIMARY KEY (integrator_id, entry)
  )`,
  // what was recovered through a reward, for its explanation (Explanations.ts)
  `CREATE INDEX journal_recoveries ON journal (integrator_id, reward) WHERE from_account = 'owed'`,
  // A hash chain over the journal, which the worker appends to (JournalSeals.ts). Only it may, and no role may change a
  // row. The statement that inserts a seal takes the previous hash and the first entry from the seal before.
  `CREATE TABLE journal_seals (
    integrator_id text NOT NULL,
    -- from 1 without gaps
    seal bigint NOT NULL CHECK (seal > 0),
    from_entry bigint NOT NULL CHECK ((from_entry = 1) = (seal = 1)),
    to_entry bigint NOT NULL CHECK (to_entry - from_entry BETWEEN 0 AND 999),
    -- real time
    sealed_at timestamptz NOT NULL,
    previous_hash bytea NOT NULL CHECK (length(previous_hash) = 32),
    hash bytea NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (integrator_id, seal),
    UNIQUE (integrator_id, from_entry),
    CHECK (seal > 1 OR previous_hash = decode(repeat('00', 32), 'hex'))
  )`
]
