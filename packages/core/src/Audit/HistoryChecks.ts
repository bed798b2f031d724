import { queuedEvents } from "../Processing/Segments.ts"
import type { Check } from "./Check.ts"
import { parsedOnce } from "./Sums.ts"

/** A vault operation `o`, and whom a claim paid. */
const operation = "o.kind || ' ' || o.amount || ' ' || o.asset || coalesce(' to ' || o.user_id, '')"

const millisOf = (time: string) => `floor(extract(epoch FROM ${time}) * 1000)`

/** The rules of the stored history: spend events, their rewards, events for integrators and their delivery. */
export const historyChecks: ReadonlyArray<Check> = [
  {
    name: "refunds of a clearing equal its applied refund events",
    sql: `
      SELECT c.integrator_id, c.user_id || ' ' || c.external_transaction_id AS subject,
        coalesce(sum(f.cents), 0) AS expected, c.refunded_cents AS actual
      FROM spend_events c LEFT JOIN spend_events f ON f.integrator_id = c.integrator_id AND f.user_id = c.user_id
        AND f.kind = 'refund' AND f.original_id = c.external_transaction_id AND f.position IS NOT NULL
        AND f.currency = c.currency
      WHERE c.kind = 'clearing' AND c.position IS NOT NULL
      GROUP BY c.integrator_id, c.user_id, c.external_transaction_id, c.refunded_cents
      HAVING coalesce(sum(f.cents), 0) IS DISTINCT FROM c.refunded_cents`
  },
  {
    name: "each reward belongs to an applied clearing with the same spend and refunds",
    sql: `
      SELECT r.integrator_id, 'reward ' || r.creation AS subject,
        coalesce(c.cents || ' spent, ' || least(c.cents, c.refunded_cents) || ' refunded', 'an applied clearing')
          AS expected,
        r.spend || ' spent, ' || r.refunded_spend || ' refunded' AS actual
      FROM rewards r LEFT JOIN spend_events c ON c.integrator_id = r.integrator_id AND c.user_id = r.user_id
        AND c.kind = r.kind AND c.external_transaction_id = r.external_transaction_id AND c.position IS NOT NULL
      WHERE c.cents IS DISTINCT FROM r.spend OR least(c.cents, c.refunded_cents) IS DISTINCT FROM r.refunded_spend
        OR c.purchase_at IS DISTINCT FROM r.purchase_at`
  },
  {
    name: "caps count the net amounts of their rewards",
    sql: `
      SELECT integrator_id, user_id || ' ' || program_id || ' ' || month || ' ' || category_id AS subject,
        coalesce(r.earned, 0) AS expected, coalesce(u.earned, 0) AS actual
      FROM cap_usage u FULL JOIN (
        SELECT integrator_id, user_id, month, program_id, category_id, sum(amount) AS earned FROM (
          SELECT integrator_id, user_id, program_id, amount, coalesce(category_id, '') AS category_id,
            (extract(year FROM purchase_at AT TIME ZONE 'UTC') * 12
              + extract(month FROM purchase_at AT TIME ZONE 'UTC') - 1)::int AS month
          FROM rewards
        ) dated GROUP BY integrator_id, user_id, month, program_id, category_id
      ) r USING (integrator_id, user_id, month, program_id, category_id)
      WHERE coalesce(r.earned, 0) <> coalesce(u.earned, 0)`
  },
  {
    name: "each reward has one event per revision and equals its latest event",
    sql: `
      SELECT integrator_id, id AS subject, coalesce(r.history, 'no reward') AS expected,
        coalesce(e.history, 'no event') AS actual
      FROM (
        SELECT integrator_id, user_id, concat_ws(':', 'rw', integrator_id, user_id, kind, external_transaction_id,
            program_id) AS id,
          concat_ws(' ', revision, 'events of', revision, 'revisions up to', revision, 'the last one', state, amount,
            paid, recovered, clawed_back, refunded_spend, earned, spend, currency, asset, 'version', program_version,
            'due', ${millisOf("claimable_at")}, 'created', ${millisOf("created_at")}, 'changed',
            ${millisOf("updated_at")}, 'of', external_transaction_id, 'by', program_id) AS history
        FROM rewards
      ) r FULL JOIN (
        SELECT integrator_id, d->>'userId' AS user_id, d->>'id' AS id,
          concat_ws(' ', count(*), 'events of', count(DISTINCT d->>'revision'), 'revisions up to',
            max((d->>'revision')::int), 'the last one',
            (array_agg(concat_ws(' ', d->>'state', d->'amount'->>'amount', d->>'paid', d->>'recovered',
              d->>'clawedBack', d->>'refundedSpend', d->>'earned', d->'spend'->>'amount', d->'spend'->>'currency',
              d->'amount'->>'asset', 'version', d->>'programVersion', 'due',
              ${millisOf("(d->>'claimableAt')::timestamptz")}, 'created',
              ${millisOf("(d->>'createdAt')::timestamptz")}, 'changed', ${millisOf("(d->>'updatedAt')::timestamptz")},
              'of', d->'transaction'->>'externalTransactionId', 'by', d->>'programId')
              ORDER BY (d->>'revision')::int DESC))[1]) AS history
        FROM (
          SELECT integrator_id, (body::jsonb)->'data' AS d FROM events WHERE kind LIKE 'reward.%' ${parsedOnce}
        ) bodies
        GROUP BY integrator_id, d->>'userId', d->>'id'
      ) e USING (integrator_id, user_id, id)
      WHERE e.history IS DISTINCT FROM r.history`
  },
  {
    name: "each vault operation has one event with its amount",
    sql: `
      SELECT integrator_id, reference AS subject, ${operation} AS expected, e.operations AS actual
      FROM vault_operations o FULL JOIN (
        SELECT integrator_id, coalesce(d->>'reference', 'none') AS reference, string_agg(concat_ws(' ',
          replace(replace(b->>'kind', 'vault.', ''), '_confirmed', ''), d->'amount'->>'amount', d->'amount'->>'asset',
          'to ' || (d->>'userId')), ', ') AS operations
        FROM (
          SELECT integrator_id, b, b->'data' AS d
          FROM (SELECT integrator_id, body::jsonb AS b FROM events WHERE kind LIKE 'vault.%' ${parsedOnce}) parsed
          WHERE b->>'kind' <> 'vault.low_funds'
        ) bodies
        GROUP BY integrator_id, coalesce(d->>'reference', 'none')
      ) e USING (integrator_id, reference)
      WHERE ${operation} IS DISTINCT FROM e.operations`
  },
  {
    name: "authorizations and estimates are of users with applied authorizations",
    sql: `
      SELECT integrator_id, user_id AS subject, 'an applied authorization' AS expected, 'none' AS actual FROM (
        SELECT integrator_id, user_id FROM authorizations UNION SELECT integrator_id, user_id FROM open_estimates
        UNION SELECT integrator_id, user_id FROM expected_balances WHERE expected > 0
      ) known WHERE NOT EXISTS (
        SELECT 1 FROM spend_events e WHERE e.integrator_id = known.integrator_id AND e.user_id = known.user_id
          AND e.kind = 'authorization' AND e.position IS NOT NULL
      )`
  },
  numbered("journal entries", "journal", "entry", "entries"),
  numbered("events", "events", "event", "events"),
  numbered("rewards", "rewards", "creation", "rewards"),
  {
    name: "every stored event is applied, queued or set aside, and only one of these",
    sql: `
      SELECT integrator_id, user_id || ' ' || kind || ' ' || external_transaction_id AS subject,
        'one' AS expected, concat_ws(', ', CASE WHEN e.arrival IS NULL THEN 'not stored' END,
          CASE WHEN e.position IS NOT NULL THEN 'applied' END,
          CASE WHEN q.times > 0 THEN 'queued' END, CASE WHEN q.times > 1 THEN 'queued again' END,
          CASE WHEN w.arrival IS NOT NULL THEN 'set aside' END) AS actual
      FROM spend_events e
      FULL JOIN (
        SELECT integrator_id, lane, user_id, kind, external_transaction_id, count(*) AS times FROM ${queuedEvents} one
        GROUP BY 1, 2, 3, 4, 5
      ) q USING (integrator_id, lane, user_id, kind, external_transaction_id)
      LEFT JOIN (SELECT integrator_id, arrival FROM spend_event_waits) w USING (integrator_id, arrival)
      WHERE e.arrival IS NULL OR q.times > 1 OR (e.position IS NOT NULL)::int + (w.arrival IS NOT NULL)::int
        + (q.times IS NOT NULL AND e.position IS NULL)::int <> 1`
  },
  {
    name: "nothing waits for an event that is applied",
    sql: `
      SELECT w.integrator_id, w.user_id || ' ' || w.kind || ' ' || w.external_transaction_id AS subject,
        'applied' AS expected, 'set aside' AS actual
      FROM spend_event_waits w JOIN spend_events o ON o.integrator_id = w.integrator_id AND o.user_id = w.user_id
        AND o.kind = w.original_kind AND o.external_transaction_id = w.original_id AND o.position IS NOT NULL
      -- except for dependents that one transaction could not apply: the event that released them stays in the queue
      WHERE NOT EXISTS (
        SELECT 1 FROM ${queuedEvents} q JOIN spend_events e
          ON e.integrator_id = q.integrator_id AND e.user_id = q.user_id AND e.kind = q.kind
          AND e.external_transaction_id = q.external_transaction_id AND e.position IS NOT NULL
        WHERE q.integrator_id = w.integrator_id AND q.user_id = w.user_id
      )`
  },
  {
    name: "each event that is set aside waits for the one that it names",
    sql: `
      SELECT w.integrator_id, w.user_id || ' ' || w.kind || ' ' || w.external_transaction_id AS subject,
        coalesce(e.original_id || ' since ' || e.occurred_at, 'a stored event') AS expected,
        w.original_id || ' since ' || w.occurred_at AS actual
      FROM spend_event_waits w LEFT JOIN spend_events e ON e.integrator_id = w.integrator_id AND e.arrival = w.arrival
        AND e.user_id = w.user_id AND e.kind = w.kind AND e.external_transaction_id = w.external_transaction_id
      WHERE (e.original_id, e.occurred_at) IS DISTINCT FROM (w.original_id, w.occurred_at)
        OR (e.kind = 'refund') <> (w.original_kind = 'clearing')`
  },
  {
    name: "every webhook attempt belongs to an event",
    sql: `
      SELECT a.integrator_id, a.event || ' ' || a.round || ' ' || a.attempt AS subject, 'an event' AS expected,
        'none' AS actual
      FROM delivery_attempts a LEFT JOIN events e USING (integrator_id, event) WHERE e.event IS NULL`
  },
  {
    // The cell has attempts from some time on. Those of its oldest week may have been removed by a cell that had the
    // integrator before, once the week has been over for a day, the shortest retention.
    name: "every event up to an endpoint's cursor was delivered to it, or is among its retries",
    sql: `
      WITH kept AS (SELECT integrator_id, min(at) AS since FROM delivery_attempts GROUP BY integrator_id),
      oldest AS (
        SELECT min(since) AS attempt_at, date_trunc('week', min(since), 'UTC') + interval '7 days' AS week_end FROM kept
      )
      SELECT e.integrator_id, 'event ' || v.event AS subject, 'delivered, or a retry' AS expected, 'neither' AS actual
      FROM oldest CROSS JOIN webhook_endpoints e LEFT JOIN kept USING (integrator_id)
      JOIN events v ON v.integrator_id = e.integrator_id AND v.event > e.start AND v.event <= e.cursor
      WHERE e.deleted_at IS NULL AND v.stored_at > oldest.attempt_at
        AND (v.stored_at > kept.since OR v.stored_at >= oldest.week_end OR oldest.week_end > now() - interval '1 day')
        AND NOT EXISTS (SELECT FROM retries r WHERE r.integrator_id = e.integrator_id
          AND r.generation = e.generation AND r.event = v.event)
        AND NOT EXISTS (SELECT FROM delivery_attempts a WHERE a.integrator_id = e.integrator_id
          AND a.event = v.event AND a.status BETWEEN 200 AND 299)`
  },
  {
    name: "an endpoint's cursor is between the event before it and the last one",
    sql: `
      SELECT e.integrator_id, e.endpoint_id AS subject, e.start || ' to ' || v.events AS expected, e.cursor AS actual
      FROM webhook_endpoints e JOIN vaults v USING (integrator_id)
      WHERE NOT e.cursor BETWEEN e.start AND v.events`
  },
  {
    name: "of each reward's open retries the first one has a time, and no other",
    sql: `
      SELECT r.integrator_id, 'event ' || r.event AS subject, (r.place = 1)::text AS expected,
        (r.next_attempt_at IS NOT NULL)::text AS actual
      FROM (
        SELECT r.*, row_number() OVER (PARTITION BY r.integrator_id, r.generation, r.reward ORDER BY r.event, r.round)
          AS place
        FROM retries r JOIN webhook_endpoints e USING (integrator_id, generation)
        -- those of a deleted endpoint are removed batch by batch, in any order
        WHERE r.state = 'open' AND r.reward IS NOT NULL AND e.deleted_at IS NULL
      ) r WHERE (r.place = 1) <> (r.next_attempt_at IS NOT NULL)`
  },
  {
    name: "applied events are numbered without gaps in their lane",
    sql: `
      SELECT integrator_id, 'lane ' || lane AS subject, coalesce(l.position::text, 'a lane') AS expected,
        count(e.position) || ' events, ' || coalesce(min(e.position), 1) || ' to ' || coalesce(max(e.position), 0)
          AS actual
      FROM vaults CROSS JOIN generate_series(0, 15) AS lane LEFT JOIN lanes l USING (integrator_id, lane)
      LEFT JOIN spend_events e USING (integrator_id, lane)
      GROUP BY integrator_id, lane, l.position
      HAVING l.position IS NULL OR count(e.position) <> l.position OR count(DISTINCT e.position) <> l.position
        OR coalesce(max(e.position), 0) <> l.position OR min(e.position) <> 1`
  }
]

/** The rule that the rows which a counter of the vault numbers have no gaps, up to the counter's value. */
function numbered(what: string, table: string, column: string, counter: string): Check {
  return {
    name: `${what} are numbered without gaps`,
    sql: `
      SELECT v.integrator_id, '${what}' AS subject, v.${counter} AS expected,
        count(t.${column}) || ' rows, ' || coalesce(min(t.${column}), 1) || ' to ' || coalesce(max(t.${column}), 0)
          AS actual
      FROM vaults v LEFT JOIN ${table} t ON t.integrator_id = v.integrator_id
      GROUP BY v.integrator_id, v.${counter}
      HAVING count(t.${column}) <> v.${counter} OR coalesce(max(t.${column}), 0) <> v.${counter}
        OR min(t.${column}) <> 1`
  }
}
