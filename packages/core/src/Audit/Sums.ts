import { userAccounts } from "@card-rewards/domain/Journal"
import { movementNames, movementsOf } from "@card-rewards/domain/Statement"
import { perRowSql } from "../Database/PlannerHints.ts"

/** The part of a reward that is neither paid nor recovered. */
export const unpaid = "amount - paid - recovered + clawed_back"

/**
 * Each account of a user as it follows from the rewards and the payouts. A payout is paid in the balances already and
 * not yet in the rewards.
 */
export const fromRewards = `
  SELECT integrator_id, user_id, asset, r."awaitingFunding", r.pending,
    r.claimable - coalesce(p.amount, 0) AS claimable, r.paid + coalesce(p.amount, 0) AS paid, r.owed, r.amount
  FROM (
    SELECT integrator_id, user_id, asset,
      coalesce(sum(${unpaid}) FILTER (WHERE state = 'AwaitingFunding'), 0) AS "awaitingFunding",
      coalesce(sum(${unpaid}) FILTER (WHERE state = 'Pending'), 0) AS pending,
      coalesce(sum(${unpaid}) FILTER (WHERE state = 'Claimable'), 0) AS claimable,
      sum(paid) AS paid, sum(clawed_back) - sum(recovered) AS owed, sum(amount) AS amount
    FROM rewards GROUP BY integrator_id, user_id, asset
  ) r LEFT JOIN payouts p USING (integrator_id, user_id, asset)`

/** The balance of each account as it follows from the journal. */
export const fromJournal = `
  SELECT integrator_id, asset, account, user_id, sum(amount) AS balance FROM (
    SELECT integrator_id, asset, to_account AS account, user_id, amount FROM journal
    UNION ALL SELECT integrator_id, asset, from_account, user_id, -amount FROM journal
  ) sides GROUP BY integrator_id, asset, account, user_id`

/** Keeps PostgreSQL from parsing a JSON body once for each of its fields. */
export const parsedOnce = perRowSql

/** The sum of journal entries into an account minus those out of it. */
export const netOf = (account: string) =>
  `coalesce(sum(amount) FILTER (WHERE to_account = '${account}'), 0)
    - coalesce(sum(amount) FILTER (WHERE from_account = '${account}'), 0)`

/** All valid transfers: the two accounts, whether an entry names a user, and whether it names a reward. */
export const transfers = [
  ...["'world', 'free'", "'free', 'world'", "'free', 'assigned'"].map((pair) => `(${pair}, false, false)`),
  ...[
    "'free', 'pending'", "'promised', 'awaitingFunding'", "'awaitingFunding', 'promised'",
    "'awaitingFunding', 'pending'", "'free', 'promised'", "'assigned', 'promised'", "'pending', 'claimable'",
    "'pending', 'free'", "'claimable', 'free'", "'claimable', 'paid'", "'owed', 'clawedBack'", "'clawedBack', 'owed'"
  ].map((pair) => `(${pair}, true, true)`),
  // a large claim, before and while its rewards are paid one by one
  ...["'claimable', 'paid'", "'paid', 'claimable'"].map((pair) => `(${pair}, true, false)`)
].join(", ")

/** The account's column in user_balances. */
export const columnOf = (account: string) => account === "awaitingFunding" ? "awaiting_funding" : account

/** A row `b` of user_balances as rows of (account, balance). */
export const balanceColumns = userAccounts.map((account) => `('${account}', b.${columnOf(account)})`).join(", ")

/** The UTC day of a journal entry, in days since 1970. */
const dayOfEntry = `(recorded_at AT TIME ZONE 'UTC')::date - date '1970-01-01'`

/** What the journal's entries of each day add to free money and to each movement of the vault (Statement.ts). */
export const dailyMovements = `
  SELECT integrator_id, asset, ${dayOfEntry} AS day,
    ${netOf("free")} AS free,
    ${
  movementNames.map((name) => {
    const cases = Object.entries(movementsOf).flatMap(([accounts, signs]) =>
      signs.filter(([movement]) => movement === name).map(([, sign]) =>
        `WHEN '${accounts}' THEN ${sign === 1n ? "" : "-"}amount`))
    return `coalesce(sum(CASE from_account || ' → ' || to_account ${cases.join(" ")} END), 0) AS ${name}`
  }).join(",\n    ")
}
  FROM journal GROUP BY 1, 2, 3`
