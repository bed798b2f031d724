/** What is changed, the statements that change it and change it back, and the rule that must find it. */
export type Fault = readonly [fault: string, plant: string, undo: string, rule: string]

/** Faults of the log of events. */
export const eventFaults: ReadonlyArray<Fault> = [
  [
    "an event's body",
    `UPDATE events SET body = replace(body, '"paid":"0"', '"paid":"1"') WHERE event = (SELECT max(event) FROM events)`,
    `UPDATE events SET body = replace(body, '"paid":"1"', '"paid":"0"') WHERE event = (SELECT max(event) FROM events)`,
    "equals its latest event"
  ],
  [
    "a doubled event",
    `INSERT INTO events SELECT integrator_id, event + 1, event_id || '-', kind, created_at, stored_at, body, reward
    FROM events WHERE event = (SELECT max(event) FROM events); UPDATE vaults SET events = events + 1`,
    `DELETE FROM events WHERE event = (SELECT max(event) FROM events); UPDATE vaults SET events = events - 1`,
    "one event per revision"
  ],
  [
    "an event's revision",
    `UPDATE events SET body = replace(body, '"revision":1', '"revision":9')
    WHERE event = (SELECT min(event) FROM events WHERE kind LIKE 'reward.%')`,
    `UPDATE events SET body = replace(body, '"revision":9', '"revision":1')
    WHERE event = (SELECT min(event) FROM events WHERE kind LIKE 'reward.%')`,
    "one event per revision"
  ],
  [
    "a missing event",
    "CREATE TABLE kept AS SELECT * FROM events WHERE event = 2; DELETE FROM events WHERE event = 2",
    "INSERT INTO events TABLE kept; DROP TABLE kept",
    "events are numbered without gaps"
  ]
]
