import { movementNames } from "@card-rewards/domain/Statement"
import type { Fault } from "./EventFaults.ts"

const endOfDay = `integrator_id, asset, day, free, ${movementNames.join(", ")}`

/** Faults of rows that others are compared with, or that decide what comes later. */
export const historyFaults: ReadonlyArray<Fault> = [
  [
    "a missing balance of the vault",
    "CREATE TABLE kept AS SELECT * FROM vault_balances WHERE held = 0; DELETE FROM vault_balances WHERE held = 0",
    "INSERT INTO vault_balances TABLE kept; DROP TABLE kept",
    "each vault has a balance of each asset"
  ],
  [
    "an end of the vault's present day",
    `INSERT INTO vault_days (${endOfDay}) SELECT ${endOfDay} FROM vault_balances WHERE asset = 'USDC'`,
    "DELETE FROM vault_days d USING vault_balances b WHERE d.asset = b.asset AND d.day = b.day",
    "the stored ends of days are before the vault's last day"
  ],
  [
    "a sum of waiting rewards",
    "UPDATE waiting_sums SET amount = amount + 1",
    "UPDATE waiting_sums SET amount = amount - 1",
    "each stored sum of waiting rewards"
  ],
  [
    "a user's first waiting reward",
    "UPDATE user_balances SET first_waiting = first_waiting + 1",
    "UPDATE user_balances SET first_waiting = first_waiting - 1",
    "each user's first pending and first waiting reward"
  ],
  ...["tier = 'gold'", "country = 'DE'", "segment = 'beta'"].map((set): Fault => [
    `an authorization's ${set.split(" ")[0]}`,
    `UPDATE authorizations SET ${set}`,
    `UPDATE authorizations SET ${set.split(" ")[0]} = NULL`,
    "the stored events, applied again"
  ]),
  [
    "an authorization's time",
    "UPDATE authorizations SET occurred_at = occurred_at - interval '40 days'",
    "UPDATE authorizations SET occurred_at = occurred_at + interval '40 days'",
    "the stored events, applied again"
  ],
  [
    "an authorization's currency and merchant",
    "CREATE TABLE kept AS TABLE authorizations; UPDATE authorizations SET currency = 'EUR', mcc = '9999'",
    "UPDATE authorizations a SET currency = k.currency, mcc = k.mcc FROM kept k; DROP TABLE kept",
    "the stored events, applied again"
  ],
  [
    "an event's number",
    "UPDATE events SET event = 0 WHERE event = 2",
    "UPDATE events SET event = 2 WHERE event = 0",
    "events are numbered without gaps"
  ],
  [
    "an applied event's number in its lane",
    "UPDATE spend_events SET position = 0 WHERE position = 1",
    "UPDATE spend_events SET position = 1 WHERE position = 0",
    "numbered without gaps in their lane"
  ],
  [
    "a missing lane",
    "CREATE TABLE kept AS SELECT * FROM lanes WHERE position = 0; DELETE FROM lanes WHERE position = 0",
    "INSERT INTO lanes TABLE kept; DROP TABLE kept",
    "numbered without gaps in their lane"
  ],
  ...["created_at", "updated_at"].map((time): Fault => [
    `a reward's ${time}`,
    `UPDATE rewards SET ${time} = ${time} - interval '30 days' WHERE creation = 1`,
    `UPDATE rewards SET ${time} = ${time} + interval '30 days' WHERE creation = 1`,
    "equals its latest event"
  ]),
  ...[[`"asset":"USDC"`, `"asset":"EURe"`], [`"programId":"base"`, `"programId":"other"`], [`"c3"`, `"c4"`]].map(
    ([from, to]): Fault => [
      `${from} in the latest event`,
      `UPDATE events SET body = replace(body, '${from}', '${to}') WHERE event = (SELECT max(event) FROM events)`,
      `UPDATE events SET body = replace(body, '${to}', '${from}') WHERE event = (SELECT max(event) FROM events)`,
      "equals its latest event"
    ]
  ),
  [
    "an event of an operation that was none",
    `INSERT INTO events SELECT integrator_id, (SELECT max(event) + 1 FROM events), event_id || '-', 'vault.low_funds',
      created_at, stored_at, '{"kind":"vault.deposit_confirmed","data":{}}', reward FROM events WHERE event = 1;
      UPDATE vaults SET events = events + 1`.replaceAll(/;\s+/g, "; "),
    "DELETE FROM events WHERE event_id LIKE '%-'; UPDATE vaults SET events = events - 1",
    "each vault operation has one event"
  ],
  [
    "what an event waits for",
    "UPDATE spend_event_waits SET original_id = 'other'",
    "UPDATE spend_event_waits SET original_id = 'unknown'",
    "waits for the one that it names"
  ],
  [
    "the kind of what an event waits for",
    "UPDATE spend_event_waits SET original_kind = 'authorization'",
    "UPDATE spend_event_waits SET original_kind = 'clearing'",
    "waits for the one that it names"
  ]
]
