import { eventFaults, type Fault } from "./EventFaults.ts"

/** An endpoint that has passed the events up to a number. */
const plantEndpoint = (cursor: number) =>
  `INSERT INTO webhook_endpoints (integrator_id, generation, endpoint_id, url, created_at, first_revision,
    revision, start, cursor)
  SELECT integrator_id, 1, 'hook', 'https://receiver.example', now(), 1, 1, 0, ${cursor} FROM integrators`

export const faults: ReadonlyArray<Fault> = [
  [
    "a user's claimable balance",
    "UPDATE user_balances SET claimable = claimable + 1",
    "UPDATE user_balances SET claimable = claimable - 1",
    "user balances equal the sums"
  ],
  [
    "a user's owed balance",
    "UPDATE user_balances SET owed = owed + 1",
    "UPDATE user_balances SET owed = owed - 1",
    "rewards add up"
  ],
  [
    "a missing balance row",
    "CREATE TABLE kept AS TABLE user_balances; DELETE FROM user_balances",
    "INSERT INTO user_balances TABLE kept; DROP TABLE kept",
    "user balances equal the journal"
  ],
  [
    "free money of the vault",
    "UPDATE vault_balances SET free = free + 1 WHERE asset = 'USDC'",
    "UPDATE vault_balances SET free = free - 1 WHERE asset = 'USDC'",
    "free and assigned money of the vault"
  ],
  [
    "held money of the vault",
    "UPDATE vault_balances SET held = held + 1, deposits = deposits + 1 WHERE asset = 'USDC'",
    "UPDATE vault_balances SET held = held - 1, deposits = deposits - 1 WHERE asset = 'USDC'",
    "held = deposits"
  ],
  [
    "a movement of the vault on its last day",
    "UPDATE vault_balances SET matured = matured + 1 WHERE asset = 'USDC'",
    "UPDATE vault_balances SET matured = matured - 1 WHERE asset = 'USDC'",
    "at the end of each day equal the journal"
  ],
  [
    "the end of an earlier day",
    "UPDATE vault_days SET free = free + 1",
    "UPDATE vault_days SET free = free - 1",
    "at the end of each day equal the journal"
  ],
  [
    "a missing end of a day",
    "CREATE TABLE kept AS TABLE vault_days; DELETE FROM vault_days",
    "INSERT INTO vault_days TABLE kept; DROP TABLE kept",
    "each day on which the vault changed"
  ],
  [
    "a deposit's amount",
    "UPDATE vault_operations SET amount = amount + 1 WHERE reference = 'd1'",
    "UPDATE vault_operations SET amount = amount - 1 WHERE reference = 'd1'",
    "each vault operation is in the journal"
  ],
  [
    "whom a claim paid",
    "UPDATE vault_operations SET user_id = 'mallory' WHERE reference = 'p1'",
    `UPDATE vault_operations o SET user_id = e.body::json->'data'->>'userId' FROM events e
      WHERE o.reference = 'p1' AND e.kind = 'vault.claim_confirmed'`,
    "each vault operation has one event"
  ],
  [
    "a reward's paid amount",
    "UPDATE rewards SET paid = paid - 1, amount = amount - 1, earned = earned - 1 WHERE creation = 2",
    "UPDATE rewards SET paid = paid + 1, earned = earned + 1, amount = amount + 1 WHERE creation = 2",
    "each reward equals its journal"
  ],
  [
    "a reward's net amount",
    "UPDATE rewards SET amount = amount - 1 WHERE creation = 3",
    "UPDATE rewards SET amount = amount + 1 WHERE creation = 3",
    "amount = floor"
  ],
  [
    "a reward's revision",
    "UPDATE rewards SET revision = revision + 1 WHERE creation = 1",
    "UPDATE rewards SET revision = revision - 1 WHERE creation = 1",
    "one event per revision"
  ],
  [
    "a reward's spend",
    "UPDATE spend_events SET cents = cents + 1 WHERE external_transaction_id = 'c3'",
    "UPDATE spend_events SET cents = cents - 1 WHERE external_transaction_id = 'c3'",
    "belongs to an applied clearing"
  ],
  [
    "a refund's amount",
    "UPDATE spend_events SET cents = cents + 1 WHERE external_transaction_id = 'r1'",
    "UPDATE spend_events SET cents = cents - 1 WHERE external_transaction_id = 'r1'",
    "refunds of a clearing"
  ],
  [
    "what a cap counted",
    "UPDATE cap_usage SET earned = earned + 1 WHERE category_id = 'groceries'",
    "UPDATE cap_usage SET earned = earned - 1 WHERE category_id = 'groceries'",
    "caps count"
  ],
  [
    "a reward's program version",
    "UPDATE rewards SET program_version = program_version + 1 WHERE creation = 1",
    "UPDATE rewards SET program_version = program_version - 1 WHERE creation = 1",
    "equals its latest event"
  ],
  ...eventFaults,
  [
    "a journal entry's amount",
    "UPDATE journal SET amount = amount + 1 WHERE entry = 2",
    "UPDATE journal SET amount = amount - 1 WHERE entry = 2",
    "each reward equals its journal"
  ],
  [
    "a missing journal entry",
    "CREATE TABLE kept AS SELECT * FROM journal WHERE entry = 1; DELETE FROM journal WHERE entry = 1",
    "INSERT INTO journal TABLE kept; DROP TABLE kept",
    "journal entries are numbered without gaps"
  ],
  [
    "a spend event that is neither queued nor set aside",
    "CREATE TABLE kept AS TABLE spend_event_waits; DELETE FROM spend_event_waits",
    "INSERT INTO spend_event_waits TABLE kept; DROP TABLE kept",
    "queued or set aside"
  ],
  [
    "a spend event that is queued although it is set aside",
    `INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
    SELECT integrator_id, lane, arrival, ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id] FROM spend_events
    WHERE external_transaction_id = 'r2'`,
    "DELETE FROM spend_event_queue",
    "queued or set aside"
  ],
  [
    "an applied spend event that is queued twice",
    `INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
    SELECT integrator_id, lane, arrival, ARRAY[user_id, user_id], ARRAY[kind, kind], ARRAY['c3', 'c3']
    FROM spend_events WHERE external_transaction_id = 'c3'`,
    "DELETE FROM spend_event_queue",
    "queued or set aside"
  ],
  [
    "a queued spend event that is not stored",
    `INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
    SELECT integrator_id, lane, arrival, ARRAY[user_id], ARRAY[kind], ARRAY['none'] FROM spend_events
    WHERE external_transaction_id = 'c3'`,
    "DELETE FROM spend_event_queue",
    "queued or set aside"
  ],
  [
    "a spend event that waits for an applied one",
    "UPDATE spend_event_waits SET original_id = 'c1'",
    "UPDATE spend_event_waits SET original_id = 'unknown'",
    "nothing waits for an event"
  ],
  [
    "a webhook attempt without an event",
    "INSERT INTO delivery_attempts SELECT integrator_id, 999, 1, 1, now(), 1, 200 FROM integrators",
    "DELETE FROM delivery_attempts WHERE event = 999",
    "every webhook attempt belongs to an event"
  ],
  [
    "an event that its endpoint was never sent",
    `${plantEndpoint(2)}; INSERT INTO delivery_attempts
      SELECT integrator_id, 1, 1, 1, stored_at - interval '1 day', 1, 200 FROM events WHERE event = 1`,
    "DELETE FROM webhook_endpoints; DELETE FROM delivery_attempts",
    "every event up to an endpoint's cursor was delivered"
  ],
  [
    "an endpoint's cursor",
    plantEndpoint(-1),
    "DELETE FROM webhook_endpoints",
    "an endpoint's cursor is between"
  ],
  [
    "the order of a reward's retries",
    `${plantEndpoint(0)}; INSERT INTO retries
      SELECT integrator_id, 1, n, 1, 1, 'open', 1, now(), 1, now() FROM integrators, generate_series(1, 2) n`,
    "DELETE FROM retries; DELETE FROM webhook_endpoints",
    "of each reward's open retries"
  ],
  [
    "a position in a lane",
    "UPDATE lanes SET position = position + 1 WHERE position > 0",
    "UPDATE lanes SET position = position - 1 WHERE position > 0",
    "numbered without gaps in their lane"
  ],
  [
    "assigned money",
    "UPDATE vault_balances SET assigned = 1, held = held + 1, deposits = deposits + 1 WHERE asset = 'USDC'",
    "UPDATE vault_balances SET assigned = 0, held = held - 1, deposits = deposits - 1 WHERE asset = 'USDC'",
    "assigned money equals the sum"
  ],
  [
    "free money that a waiting reward should have",
    `UPDATE vault_balances SET free = free + 90000000, held = held + 90000000, deposits = deposits + 90000000
      WHERE asset = 'USDC'`,
    `UPDATE vault_balances SET free = free - 90000000, held = held - 90000000, deposits = deposits - 90000000
      WHERE asset = 'USDC'`,
    "free money is less than"
  ],
  [
    "the accounts of a journal entry",
    "UPDATE journal SET from_account = 'world' WHERE entry = 2",
    "UPDATE journal SET from_account = 'free' WHERE entry = 2",
    "between known accounts"
  ],
  [
    "the user of a journal entry",
    "UPDATE journal SET user_id = 'u2' WHERE entry = 2",
    "UPDATE journal SET user_id = 'u1' WHERE entry = 2",
    "user balances equal the journal"
  ],
  [
    "an authorization's total",
    "UPDATE authorizations SET incremented = incremented + 1",
    "UPDATE authorizations SET incremented = incremented - 1",
    "the stored events, applied again"
  ],
  [
    "an estimate",
    "UPDATE open_estimates SET raw = raw + 1",
    "UPDATE open_estimates SET raw = raw - 1",
    "the stored events, applied again"
  ],
  [
    "an expected balance",
    "UPDATE expected_balances SET expected = expected + 1",
    "UPDATE expected_balances SET expected = expected - 1",
    "the stored events, applied again"
  ],
  [
    "what the caps had counted before a reward",
    "UPDATE rewards SET month_used_before = month_used_before + 1 WHERE creation = 2",
    "UPDATE rewards SET month_used_before = month_used_before - 1 WHERE creation = 2",
    "the stored events, applied again"
  ],
  [
    "a purchase's merchant",
    "UPDATE spend_events SET mcc = '9999' WHERE external_transaction_id = 'c2'",
    "UPDATE spend_events SET mcc = '5411' WHERE external_transaction_id = 'c2'",
    "the stored events, applied again"
  ],
  [
    "a published rate",
    `UPDATE program_versions SET definition = jsonb_set(definition, '{baseRate}', '101')`,
    `UPDATE program_versions SET definition = jsonb_set(definition, '{baseRate}', '100')`,
    "the stored events, applied again"
  ],
  [
    "why a purchase earned nothing",
    `WITH list AS (
      INSERT INTO unearned_lists SELECT integrator_id, substring(sha256(convert_to(programs, 'UTF8')) FOR 16), programs
      FROM integrators, (VALUES ('[["base",1,"zeroRate"]]')) AS t(programs) RETURNING digest
    ) UPDATE spend_events SET unearned = list.digest FROM list WHERE external_transaction_id = 'c3'`,
    "UPDATE spend_events SET unearned = NULL WHERE external_transaction_id = 'c3'; DELETE FROM unearned_lists",
    "the stored events, applied again"
  ],
  [
    "why an event that is not applied earned nothing",
    `WITH list AS (
      INSERT INTO unearned_lists SELECT integrator_id, substring(sha256(convert_to(programs, 'UTF8')) FOR 16), programs
      FROM integrators, (VALUES ('[["base",1,"zeroRate"]]')) AS t(programs) RETURNING digest
    ) UPDATE spend_events SET unearned = list.digest FROM list WHERE position IS NULL`,
    "UPDATE spend_events SET unearned = NULL WHERE position IS NULL; DELETE FROM unearned_lists",
    "the stored events, applied again"
  ],
  [
    "an operation's event",
    "UPDATE events SET body = replace(body, '3000000', '3000001') WHERE event = 1",
    "UPDATE events SET body = replace(body, '3000001', '3000000') WHERE event = 1",
    "each vault operation has one event"
  ],
  [
    "an operation of a production vault that no operator ran",
    "UPDATE vaults SET vault_id = 'production'",
    "UPDATE vaults SET vault_id = 'sandbox'",
    "each operation of a production vault has one operator's action"
  ],
  [
    "an authorization of a user who never had one",
    "UPDATE authorizations SET user_id = 'u2'",
    "UPDATE authorizations SET user_id = 'u1'",
    "of users with applied authorizations"
  ]
]
