import { userAccounts } from "@card-rewards/domain/Journal"
import { assets } from "@card-rewards/domain/Money"
import { movementNames } from "@card-rewards/domain/Statement"
import { blockSize } from "../Ledger/Accounts.ts"
import type { Check } from "./Check.ts"
import { balanceColumns, columnOf, dailyMovements, fromJournal, fromRewards, netOf, transfers, unpaid } from "./Sums.ts"

/** What is stored of the end of a day. */
const dayEnd = ["free", ...movementNames]

/** The stored ends of days, with the present state of each vault as that of its last one. */
const dayEnds = ["vault_days", "vault_balances"].map((table) =>
  `SELECT integrator_id, asset, day, ${dayEnd.join(", ")} FROM ${table} WHERE day IS NOT NULL`).join(" UNION ALL ")

const printedDay = (day = "day") => `(date '1970-01-01' + ${day})`

/** The rules of the money: vaults, balances and rewards against the journal and against each other. */
export const moneyChecks: ReadonlyArray<Check> = [
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
      SELECT integrator_id, user_id || ' ' || asset || ' ' || account AS subject, journal AS expected, balance AS actual
      FROM (
        SELECT integrator_id, user_id, asset, account, coalesce(j.balance, 0) AS journal,
          coalesce(b.balance, 0) AS balance
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
    name: "each vault has a balance of each asset",
    sql: `
      SELECT integrator_id, asset AS subject, 'a balance' AS expected, 'none' AS actual
      FROM vaults CROSS JOIN (VALUES ${assets.map((asset) => `('${asset}')`).join(", ")}) AS a(asset)
      LEFT JOIN vault_balances b USING (integrator_id, asset) WHERE b.held IS NULL`
  },
  {
    name: "free and assigned money of the vault equal the journal",
    sql: `
      SELECT b.integrator_id, b.asset || ' ' || b.account AS subject, coalesce(j.balance, 0) AS expected,
        b.balance AS actual
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
    name: "every journal entry is between known accounts, and names a user where one of them is a user's",
    sql: `
      SELECT integrator_id, 'entry ' || entry AS subject, 'accounts of one owner' AS expected,
        from_account || ' to ' || to_account || coalesce(' of ' || user_id, '') AS actual
      FROM journal WHERE (from_account, to_account, user_id IS NOT NULL, reward IS NOT NULL) NOT IN (${transfers})`
  },
  {
    name: "held = free + assigned + unpaid of Pending and Claimable",
    sql: `
      SELECT b.integrator_id, b.asset AS subject, b.free + b.assigned + coalesce(r.reserved, 0) AS expected,
        b.held AS actual
      FROM vault_balances b LEFT JOIN (
        SELECT integrator_id, asset, sum(reserved) AS reserved FROM (
          SELECT integrator_id, asset, ${unpaid} AS reserved FROM rewards WHERE state IN ('Pending', 'Claimable')
          UNION ALL SELECT integrator_id, asset, -amount FROM payouts
        ) parts GROUP BY integrator_id, asset
      ) r USING (integrator_id, asset) WHERE b.held <> b.free + b.assigned + coalesce(r.reserved, 0)`
  },
  {
    name: "each stored sum of waiting rewards equals the rewards of its block",
    sql: `
      SELECT integrator_id, asset || ' block ' || block AS subject, coalesce(r.amount, 0) AS expected,
        coalesce(s.amount, 0) AS actual
      FROM waiting_sums s FULL JOIN (
        SELECT integrator_id, asset, creation / ${blockSize} AS block, sum(amount) AS amount FROM rewards
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
    // a minute after it is due: the worker postpones work that failed by up to 30 s, and the clocks of processes differ
    name: "the next work on each vault is known",
    sql: `
      SELECT v.integrator_id, 'work' AS subject, 'at the latest ' || w.due AS expected, v.work_at::text AS actual
      FROM vaults v JOIN integrators i USING (integrator_id) JOIN (
        SELECT integrator_id, min(due) + interval '1 minute' AS due FROM (
          SELECT r.integrator_id,
            greatest(min(r.claimable_at), now() + min(o.clock_offset_millis) * interval '1 ms')
              - min(o.clock_offset_millis) * interval '1 ms' AS due
          FROM rewards r JOIN integrators o USING (integrator_id) WHERE r.state = 'Pending' GROUP BY r.integrator_id
          UNION ALL SELECT integrator_id, now() FROM vault_balances WHERE assigned > 0
          UNION ALL SELECT integrator_id, now() FROM payouts
        ) parts GROUP BY integrator_id
      ) w USING (integrator_id) WHERE coalesce(v.work_at > w.due, true)`
  },
  {
    name: "assigned money equals the sum of the waiting rewards that it is assigned to",
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
    name: "the free money and the movements of the vault at the end of each day equal the journal",
    sql: `
      WITH steps AS (
        SELECT integrator_id, asset, day, false AS is_end, ${dayEnd.join(", ")} FROM (${dailyMovements}) daily
        UNION ALL SELECT integrator_id, asset, day, true, ${dayEnd.map(() => "0").join(", ")} FROM (${dayEnds}) ends
      )
      SELECT integrator_id, asset || ' ' || ${printedDay()} || ' ' || side.name AS subject, side.expected, side.actual
      FROM (
        SELECT integrator_id, asset, day, is_end, ${
      dayEnd.map((name) => `sum(${name}) OVER until_then AS ${name}`).join(", ")
    } FROM steps WINDOW until_then AS (PARTITION BY integrator_id, asset ORDER BY day, is_end)
      ) j JOIN (${dayEnds}) e USING (integrator_id, asset, day)
      CROSS JOIN LATERAL (VALUES ${dayEnd.map((name) => `('${name}', j.${name}, e.${name})`).join(", ")})
        AS side(name, expected, actual)
      WHERE j.is_end AND side.expected <> side.actual`
  },
  {
    name: "each day on which the vault changed has an end",
    sql: `
      SELECT integrator_id, asset || ' ' || ${printedDay()} AS subject, 'an end' AS expected, 'none' AS actual
      FROM (${dailyMovements}) daily LEFT JOIN (${dayEnds}) e USING (integrator_id, asset, day) WHERE e.free IS NULL`
  },
  {
    name: "the stored ends of days are before the vault's last day",
    sql: `
      SELECT d.integrator_id, d.asset AS subject,
        'before ' || coalesce(${printedDay("b.day")}::text, 'any day') AS expected,
        ${printedDay("d.day")}::text AS actual
      FROM vault_days d LEFT JOIN vault_balances b USING (integrator_id, asset) WHERE coalesce(d.day >= b.day, true)`
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
  }
]
