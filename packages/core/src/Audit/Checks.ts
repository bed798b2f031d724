import {
  balanceColumns,
  columnOf,
  fromJournal,
  fromRewards,
  netOf,
  parsedOnce,
  transfers,
  unpaid,
  userAccounts
} from "./Sums.ts"

/** Something that does not hold: which rule, where, what should stand there and what does. */
export interface Finding {
  readonly check: string
  readonly integratorId: string
  readonly subject: string
  readonly expected: string
  readonly actual: string
}

/** One rule as a query for the rows that break it. */
export interface Check {
  readonly name: string
  readonly sql: string
}

/** Every rule that an audit proves. Where both sides are sums they are compared in both directions. */
export const checks: ReadonlyArray<Check> = [
  {
    name: "user balances equal the sums of the user's rewards",
    sql: `
      SELECT integrator_id, user_id || ' ' || asset || ' ' || account AS subject, expected, actual FROM (
        SELECT coalesce(r.integrator_id, b.integrator_id) AS integrator_id, coalesce(r.user_id, b.user_id) AS user_id,
          coalesce(r.asset, b.asset) AS asset, side.*
        FROM (${fromRewards}) r FULL JOIN user_balances b USING (integrator_id, user_id, asset)
        CROSS JOIN LATERAL (VALUES ${
      userAccounts.map((account) => `('${account}', coalesce(r."${account}", 0), coalesce(b.${columnOf(account)}, 0))`)
        .join(", ")
    }) AS side(account, expected, actual)
      ) sides WHERE expected <> actual`
  },
  {
    name: "rewards add up: amount = awaitingFunding + pending + claimable + paid - owed",
    sql: `
      SELECT b.integrator_id, b.user_id || ' ' || b.asset AS subject, coalesce(r.amount, 0) AS expected,
        b.awaiting_funding + b.pending + b.claimable + b.paid - b.owed AS actual
      FROM user_balances b LEFT JOIN (${fromRewards}) r USING (integrator_id, user_id, asset)
      WHERE coalesce(r.amount, 0) <> b.awaiting_funding + b.pending + b.claimable + b.paid - b.owed`
  },
  {
    name: "user balances equal the journal",
    sql: `
      SELECT integrator_id, user_id || ' ' || asset || ' ' || account AS subject, journal AS expected, balance AS actual FROM (
        SELECT integrator_id, user_id, asset, account, coalesce(j.balance, 0) AS journal, coalesce(b.balance, 0) AS balance
        FROM (SELECT * FROM (${fromJournal}) j WHERE account IN (${
      userAccounts.map((account) => `'${account}'`).join(", ")
    })) j
        FULL JOIN (
          SELECT b.integrator_id, b.user_id, b.asset, side.account, side.balance FROM user_balances b
          CROSS JOIN LATERAL (VALUES ${balanceColumns}) AS side(account, balance)
        ) b USING (integrator_id, user_id, asset, account)
      ) sides WHERE journal <> balance`
  },
  {
    name: "free and assigned money of the vault equal the journal",
    sql: `
      SELECT b.integrator_id, b.asset || ' ' || b.account AS subject, coalesce(j.balance, 0) AS expected, b.balance AS actual
      FROM (
        SELECT v.integrator_id, v.asset, side.account, side.balance FROM vault_balances v
        CROSS JOIN LATERAL (VALUES ('free', v.free), ('assigned', v.assigned)) AS side(account, balance)
      ) b LEFT JOIN (
        SELECT integrator_id, asset, account, sum(balance) AS balance FROM (${fromJournal}) j
        WHERE account IN ('free', 'assigned') GROUP BY integrator_id, asset, account
      ) j USING (integrator_id, asset, account)
      WHERE coalesce(j.balance, 0) <> b.balance`
  },
  {
    name: "every journal entry is between known accounts, a user's where it names the user",
    sql: `
      SELECT integrator_id, 'entry ' || entry AS subject, 'accounts of one owner' AS expected,
        from_account || ' to ' || to_account || coalesce(' of ' || user_id, '') AS actual
      FROM journal WHERE (from_account, to_account, user_id IS NOT NULL, reward IS NOT NULL) NOT IN (${transfers})`
  },
  {
    name: "held = free + assigned + unpaid of Pending and Claimable",
    sql: `
      SELECT b.integrator_id, b.asset AS subject, b.free + b.assigned + coalesce(r.reserved, 0) AS expected, b.held AS actual
      FROM vault_balances b LEFT JOIN (
        SELECT integrator_id, asset, sum(reserved) AS reserved FROM (
          SELECT integrator_id, asset, ${unpaid} AS reserved FROM rewards WHERE state IN ('Pending', 'Claimable')
          UNION ALL SELECT integrator_id, asset, -amount FROM payouts
        ) parts GROUP BY integrator_id, asset
      ) r USING (integrator_id, asset) WHERE b.held <> b.free + b.assigned + coalesce(r.reserved, 0)`
  },
  {
    name: "sums of waiting rewards are those of their blocks",
    sql: `
      SELECT integrator_id, asset || ' block ' || block AS subject, coalesce(r.amount, 0) AS expected,
        coalesce(s.amount, 0) AS actual
      FROM waiting_sums s FULL JOIN (
        SELECT integrator_id, asset, creation / 4096 AS block, sum(amount) AS amount FROM rewards
        WHERE state = 'AwaitingFunding' GROUP BY 1, 2, 3
      ) r USING (integrator_id, asset, block) WHERE coalesce(r.amount, 0) <> coalesce(s.amount, 0)`
  },
  {
    name: "each user's first pending and first waiting reward are known",
    sql: `
      SELECT integrator_id, user_id || ' ' || asset AS subject,
        concat_ws(' ', r.due_at, r.due_creation, 'waiting', r.first_waiting) AS expected,
        concat_ws(' ', b.due_at, b.due_creation, 'waiting', b.first_waiting) AS actual
      FROM user_balances b LEFT JOIN (
        SELECT integrator_id, user_id, asset, min(creation) FILTER (WHERE state = 'AwaitingFunding') AS first_waiting,
          min(claimable_at) FILTER (WHERE state = 'Pending') AS due_at,
          (array_agg(creation ORDER BY claimable_at, creation) FILTER (WHERE state = 'Pending'))[1] AS due_creation
        FROM rewards WHERE state IN ('Pending', 'AwaitingFunding') GROUP BY integrator_id, user_id, asset
      ) r USING (integrator_id, user_id, asset)
      WHERE (b.due_at, b.due_creation, b.first_waiting) IS DISTINCT FROM (r.due_at, r.due_creation, r.first_waiting)`
  },
  {
    name: "the next work on each vault is known",
    sql: `
      SELECT v.integrator_id, 'work' AS subject, 'at the latest ' || w.due AS expected, v.work_at::text AS actual
      FROM vaults v JOIN integrators i USING (integrator_id) JOIN (
        SELECT integrator_id, min(due) AS due FROM (
          SELECT r.integrator_id, min(r.claimable_at) - min(o.clock_offset_millis) * interval '1 ms' AS due
          FROM rewards r JOIN integrators o USING (integrator_id) WHERE r.state = 'Pending' GROUP BY r.integrator_id
          UNION ALL SELECT integrator_id, now() FROM vault_balances WHERE assigned > 0
          UNION ALL SELECT integrator_id, now() FROM payouts
        ) parts GROUP BY integrator_id
      ) w USING (integrator_id) WHERE coalesce(v.work_at > greatest(w.due, now()), true)`
  },
  {
    name: "assigned money is what the waiting rewards up to its mark come to",
    sql: `
      SELECT b.integrator_id, b.asset AS subject, coalesce(r.amount, 0) AS expected, b.assigned AS actual
      FROM vault_balances b LEFT JOIN LATERAL (
        SELECT sum(amount) AS amount FROM rewards r WHERE r.integrator_id = b.integrator_id AND r.asset = b.asset
          AND r.state = 'AwaitingFunding' AND r.creation <= b.assigned_to
      ) r ON true WHERE coalesce(r.amount, 0) <> b.assigned`
  },
  {
    name: "free money is less than the first waiting reward needs",
    sql: `
      SELECT b.integrator_id, b.asset AS subject, 'less than ' || r.amount AS expected, b.free AS actual
      FROM vault_balances b JOIN LATERAL (
        SELECT amount FROM rewards r WHERE r.integrator_id = b.integrator_id AND r.asset = b.asset
          AND r.state = 'AwaitingFunding' AND r.creation > b.assigned_to ORDER BY r.creation LIMIT 1
      ) r ON b.free >= r.amount`
  },
  {
    name: "held = deposits - withdrawals - claims",
    sql: `
      SELECT b.integrator_id, b.asset AS subject, coalesce(o.net, 0) AS expected, b.held AS actual
      FROM vault_balances b LEFT JOIN (
        SELECT integrator_id, asset, sum(CASE kind WHEN 'deposit' THEN amount ELSE -amount END) AS net
        FROM vault_operations GROUP BY integrator_id, asset
      ) o USING (integrator_id, asset) WHERE b.held <> coalesce(o.net, 0)`
  },
  {
    name: "each vault operation is in the journal with its amount",
    sql: `
      SELECT integrator_id, reference AS subject, o.amount AS expected, coalesce(j.amount, 0) AS actual
      FROM vault_operations o FULL JOIN (
        SELECT integrator_id, reference, sum(CASE from_account WHEN 'paid' THEN -amount ELSE amount END) AS amount
        FROM journal WHERE from_account IN ('world', 'paid') OR to_account IN ('world', 'paid')
        GROUP BY integrator_id, reference
      ) j USING (integrator_id, reference) WHERE o.amount IS DISTINCT FROM j.amount`
  },
  {
    name: "each reward equals its journal",
    sql: `
      SELECT integrator_id, 'reward ' || creation AS subject, coalesce(j.money, 'nothing') AS expected,
        coalesce(r.money, 'no reward') AS actual
      FROM (
        SELECT integrator_id, creation, concat_ws(' ', paid, 'paid', recovered, 'recovered', clawed_back, 'clawed back',
          nullif(${unpaid}, 0), CASE WHEN ${unpaid} <> 0 THEN state END) AS money FROM rewards
      ) r FULL JOIN (
        SELECT integrator_id, creation, concat_ws(' ', paid, 'paid', recovered, 'recovered', clawed_back, 'clawed back',
          nullif(waiting, 0), CASE WHEN waiting <> 0 THEN 'AwaitingFunding' END,
          nullif(pending, 0), CASE WHEN pending <> 0 THEN 'Pending' END,
          nullif(claimable, 0), CASE WHEN claimable <> 0 THEN 'Claimable' END) AS money
        FROM (
          SELECT integrator_id, reward AS creation, ${netOf("paid")} AS paid, ${netOf("awaitingFunding")} AS waiting,
            ${netOf("pending")} AS pending, ${netOf("claimable")} AS claimable,
            coalesce(sum(amount) FILTER (WHERE from_account = 'owed'), 0) AS recovered,
            coalesce(sum(amount) FILTER (WHERE to_account = 'owed'), 0) AS clawed_back
          FROM journal WHERE reward IS NOT NULL GROUP BY integrator_id, reward
        ) sums
      ) j USING (integrator_id, creation)
      WHERE r.money IS DISTINCT FROM j.money`
  },
  {
    name: "amount = floor(earned * (spend - refunded) / spend)",
    sql: `
      SELECT integrator_id, 'reward ' || creation AS subject, div(earned * (spend - refunded_spend), spend) AS expected,
        amount AS actual
      FROM rewards WHERE amount <> div(earned * (spend - refunded_spend), spend)`
  },
  {
    name: "refunds of a clearing are those stored and applied",
    sql: `
      SELECT c.integrator_id, c.user_id || ' ' || c.external_transaction_id AS subject, coalesce(sum(f.cents), 0) AS expected,
        c.refunded_cents AS actual
      FROM spend_events c LEFT JOIN spend_events f ON f.integrator_id = c.integrator_id AND f.user_id = c.user_id
        AND f.kind = 'refund' AND f.original_id = c.external_transaction_id AND f.position IS NOT NULL
        AND f.currency = c.currency
      WHERE c.kind = 'clearing' AND c.position IS NOT NULL
      GROUP BY c.integrator_id, c.user_id, c.external_transaction_id, c.refunded_cents
      HAVING coalesce(sum(f.cents), 0) IS DISTINCT FROM c.refunded_cents`
  },
  {
    name: "each reward stands on an applied clearing with its spend and refunds",
    sql: `
      SELECT r.integrator_id, 'reward ' || r.creation AS subject,
        coalesce(c.cents || ' spent, ' || least(c.cents, c.refunded_cents) || ' refunded', 'an applied clearing') AS expected,
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
        coalesce(r.used, 0) AS expected, coalesce(u.used, 0) AS actual
      FROM cap_usage u FULL JOIN (
        SELECT integrator_id, user_id, month, program_id, category_id, sum(amount) AS used FROM (
          SELECT r.integrator_id, r.user_id, r.program_id, r.amount, side.category_id,
            (extract(year FROM purchase_at AT TIME ZONE 'UTC') * 12 + extract(month FROM purchase_at AT TIME ZONE 'UTC') - 1)::int AS month
          FROM rewards r CROSS JOIN LATERAL (SELECT '' UNION ALL SELECT r.category_id WHERE r.category_id IS NOT NULL)
            AS side(category_id)
        ) sides GROUP BY integrator_id, user_id, month, program_id, category_id
      ) r USING (integrator_id, user_id, month, program_id, category_id)
      WHERE coalesce(r.used, 0) <> coalesce(u.used, 0)`
  },
  {
    name: "each reward has one event for each of its revisions, and is as the latest says",
    sql: `
      SELECT integrator_id, id AS subject, coalesce(r.revision || ' events, ' || r.latest, 'no reward') AS expected,
        coalesce(e.events || ' events, ' || e.latest, 'no event') AS actual
      FROM (
        SELECT integrator_id, user_id, revision, concat_ws(' ', state, amount, paid, recovered, clawed_back, refunded_spend) AS latest,
          concat_ws(':', 'rw', integrator_id, user_id, kind, external_transaction_id, program_id) AS id FROM rewards
      ) r FULL JOIN (
        SELECT integrator_id, d->>'userId' AS user_id, d->>'id' AS id, count(DISTINCT d->>'revision') AS events,
          (array_agg(concat_ws(' ', d->>'state', d->'amount'->>'amount', d->>'paid', d->>'recovered', d->>'clawedBack',
            d->>'refundedSpend') ORDER BY (d->>'revision')::int DESC))[1] AS latest
        FROM (SELECT integrator_id, (body::jsonb)->'data' AS d FROM events WHERE kind LIKE 'reward.%' ${parsedOnce}) bodies
        GROUP BY integrator_id, d->>'userId', d->>'id'
      ) e USING (integrator_id, user_id, id)
      WHERE e.events IS DISTINCT FROM r.revision OR e.latest IS DISTINCT FROM r.latest`
  },
  {
    name: "each vault operation has one event with its amount",
    sql: `
      SELECT integrator_id, reference AS subject, o.kind || ' ' || o.amount || ' ' || o.asset AS expected, e.told AS actual
      FROM vault_operations o FULL JOIN (
        SELECT integrator_id, d->>'reference' AS reference, string_agg(
          replace(replace(kind, 'vault.', ''), '_confirmed', '') || ' ' || (d->'amount'->>'amount') || ' ' || (d->'amount'->>'asset'), ', ') AS told
        FROM (SELECT integrator_id, kind, (body::jsonb)->'data' AS d FROM events WHERE kind LIKE 'vault.%' ${parsedOnce}) bodies
        GROUP BY integrator_id, d->>'reference'
      ) e USING (integrator_id, reference)
      WHERE o.kind || ' ' || o.amount || ' ' || o.asset IS DISTINCT FROM e.told`
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
      SELECT e.integrator_id, e.user_id || ' ' || e.kind || ' ' || e.external_transaction_id AS subject, 'one' AS expected,
        concat_ws(', ', CASE WHEN e.position IS NOT NULL THEN 'applied' END, CASE WHEN q.arrival IS NOT NULL THEN 'queued' END,
          CASE WHEN w.arrival IS NOT NULL THEN 'set aside' END) AS actual
      FROM spend_events e
      LEFT JOIN spend_event_queue q ON q.integrator_id = e.integrator_id AND q.lane = e.lane AND q.arrival = e.arrival
      LEFT JOIN spend_event_waits w ON w.integrator_id = e.integrator_id AND w.arrival = e.arrival
      WHERE (e.position IS NOT NULL)::int + (w.arrival IS NOT NULL)::int
        + (q.arrival IS NOT NULL AND e.position IS NULL)::int <> 1`
  },
  {
    name: "nothing waits for an event that is applied",
    sql: `
      SELECT w.integrator_id, w.user_id || ' ' || w.kind || ' ' || w.external_transaction_id AS subject, 'applied' AS expected,
        'set aside' AS actual
      FROM spend_event_waits w JOIN spend_events o ON o.integrator_id = w.integrator_id AND o.user_id = w.user_id
        AND o.kind = w.original_kind AND o.external_transaction_id = w.original_id AND o.position IS NOT NULL
      -- but for what is left of a long cascade, whose first event stays in the queue until the end
      WHERE NOT EXISTS (
        SELECT 1 FROM spend_event_queue q JOIN spend_events e ON e.integrator_id = q.integrator_id AND e.user_id = q.user_id
          AND e.kind = q.kind AND e.external_transaction_id = q.external_transaction_id AND e.position IS NOT NULL
        WHERE q.integrator_id = w.integrator_id AND q.user_id = w.user_id
      )`
  },
  {
    name: "every webhook attempt is one of a delivery",
    sql: `
      SELECT a.integrator_id, a.event || ' ' || a.round || ' ' || a.attempt AS subject, 'a delivery' AS expected, 'none' AS actual
      FROM delivery_attempts a LEFT JOIN deliveries d USING (integrator_id, event, round) WHERE d.event IS NULL`
  },
  {
    name: "applied events are numbered without gaps in their lane",
    sql: `
      SELECT l.integrator_id, 'lane ' || l.lane AS subject, l.position AS expected,
        count(e.position) || ' events, the last ' || coalesce(max(e.position), 0) AS actual
      FROM lanes l LEFT JOIN spend_events e ON e.integrator_id = l.integrator_id AND e.lane = l.lane
        AND e.position IS NOT NULL
      GROUP BY l.integrator_id, l.lane, l.position
      HAVING count(e.position) <> l.position OR count(DISTINCT e.position) <> l.position OR coalesce(max(e.position), 0) <> l.position`
  }
]

/** Rows that a counter of the vault numbers have no gaps and are as many as it says. */
function numbered(what: string, table: string, column: string, counter: string): Check {
  return {
    name: `${what} are numbered without gaps`,
    sql: `
      SELECT v.integrator_id, '${what}' AS subject, v.${counter} AS expected,
        count(t.${column}) || ' rows, the last ' || coalesce(max(t.${column}), 0) AS actual
      FROM vaults v LEFT JOIN ${table} t ON t.integrator_id = v.integrator_id
      GROUP BY v.integrator_id, v.${counter}
      HAVING count(t.${column}) <> v.${counter} OR coalesce(max(t.${column}), 0) <> v.${counter}`
  }
}
