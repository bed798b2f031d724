import type * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { laneOf } from "@card-rewards/domain/Lane"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect } from "effect"

/** An integrator after a year: each of its rewards has waited for funding, been pending, claimable, and is paid. */
export const rewardCount = 1_000_000
export const eventCount = 5 * rewardCount
const userCount = 20_000

/** Rewards, and so each kind of event, follow one another after this. */
const tickSeconds = 31
/** What each clearing spends in cents, and what it earns at 1 %. */
const cents = 12_345
const earned = cents * 100
/** Money that stays free. */
const margin = 10_000_000_000

/** After how many ticks a reward is funded, becomes claimable (after 7 days) and is claimed. */
const [funded, matured, claimed] = [120, 19_511, 22_300]

/** From the first reward to the last claim. */
export const storyMillis = (rewardCount + claimed) * tickSeconds * 1_000

export const userOf = (index: number): string => `user-${String(index).padStart(6, "0")}`

/** The id of a user's first transaction. */
export const transactionOf = (userIndex: number): string => `txn-${userIndex + 1}`

interface Volume {
  readonly sql: AdminSql.Connection
  readonly integratorId: string
  /** The program in force, which pays 1 % to all and has a holding period of 7 days. */
  readonly programId: string
  readonly startMillis: number
}

/** Stores what a year of traffic would have left, but for the journal, which no page of the console reads. */
export const seed = (volume: Volume) =>
  Effect.orDie(
    Effect.gen(function* () {
      yield* users(volume)
      const { sql } = volume
      yield* sql.unsafe(seeds.spendEvents(volume))
      yield* sql.unsafe(seeds.rewards(volume))
      yield* sql.unsafe(seeds.userBalances(volume))
      yield* sql.unsafe(seeds.vaultDays(volume))
      const step = rewardCount / 20
      for (let first = 1; first <= rewardCount; first += step) {
        yield* sql.unsafe(seeds.events(volume, first, first + step - 1))
      }
      yield* sql.withTransaction(
        Effect.forEach(seeds.vault(volume), (statement) => sql.unsafe(statement), { discard: true })
      )
      yield* sql.unsafe("VACUUM (ANALYZE) events, rewards, spend_events, users, user_balances, vault_days")
    })
  )

const users = ({ integratorId, sql }: Volume) =>
  Effect.gen(function* () {
    const ids = JSON.stringify(Array.from({ length: userCount }, (_, index) => userOf(index)))
    yield* sql`INSERT INTO users (integrator_id, user_id, enrolled_at, updated_at)
      SELECT ${integratorId}, id, '2020-01-01', '2020-01-01'
      FROM jsonb_array_elements_text(${ids}::text::jsonb) AS u(id)`
    yield* sql`INSERT INTO user_attributes (integrator_id, user_id, arrival, stored_at)
      SELECT ${integratorId}, id, nextval('arrivals'), '2020-01-01'
      FROM jsonb_array_elements_text(${ids}::text::jsonb) AS u(id)`
  })

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** SQL for the time of a tick, and for the user of a reward and its lane. */
const timeOf = ({ startMillis }: Volume, tick: string): string =>
  `(${quoted(printTimestamp(startMillis))}::timestamptz + (${tick}) * interval '${tickSeconds} s')`
const userOfReward = (index: string): string => `'user-' || lpad(((${index} - 1) % ${userCount})::text, 6, '0')`
const lanes = Array.from({ length: userCount }, (_, index) => laneOf(userOf(index)))
const laneOfReward = (index: string): string =>
  `('{${lanes.join(",")}}'::smallint[])[(${index} - 1) % ${userCount} + 1]`

const seeds = {
  spendEvents: (volume: Volume) => `
    INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency, cents,
      descriptor, mcc, occurred_at, position, purchase_at, refunded_cents)
    SELECT ${quoted(volume.integratorId)}, ${userOfReward("n")}, 'clearing', 'txn-' || n, ${laneOfReward("n")},
      ${timeOf(volume, "n")}, 'USD', ${cents}, 'Corner Market', '5411', ${timeOf(volume, "n")}, n,
      ${timeOf(volume, "n")}, 0
    FROM generate_series(1, ${rewardCount}) AS n`,

  rewards: (volume: Volume) => `
    INSERT INTO rewards (integrator_id, user_id, kind, external_transaction_id, program_id, program_version, creation,
      asset, state, purchase_at, currency, spend, refunded_spend, earned, amount, paid, recovered, clawed_back,
      month_used_before, category_used_before, claimable_at, created_at, updated_at, revision)
    SELECT ${quoted(volume.integratorId)}, ${userOfReward("n")}, 'clearing', 'txn-' || n, ${quoted(volume.programId)},
      1, n, 'USDC', 'Paid', ${timeOf(volume, "n")}, 'USD', ${cents}, 0, ${earned}, ${earned}, ${earned}, 0, 0, 0, 0,
      ${timeOf(volume, "n")} + interval '7 days', ${timeOf(volume, "n")}, ${timeOf(volume, `n + ${claimed}`)}, 4
    FROM generate_series(1, ${rewardCount}) AS n`,

  userBalances: ({ integratorId }: Volume) => `
    INSERT INTO user_balances (integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid, owed)
    SELECT integrator_id, user_id, 'USDC', 0, 0, 0, sum(paid), 0 FROM rewards
    WHERE integrator_id = ${quoted(integratorId)} GROUP BY integrator_id, user_id`,

  vaultDays: ({ integratorId, startMillis }: Volume) => `
    INSERT INTO vault_days (integrator_id, asset, day, free, deposits, withdrawals, claims, earned, refunded, recovered,
      matured)
    SELECT ${quoted(integratorId)}, 'USDC', day, ${margin}, ${earned} * ${countOf("ticks", funded)} + ${margin}, 0,
      ${earned} * ${countOf("ticks", claimed)}, ${earned} * ${countOf("ticks", 0)}, 0, 0,
      ${earned} * ${countOf("ticks", matured)}
    FROM (SELECT day, ((day + 1)::bigint * 86400 - ${Math.floor(startMillis / 1_000)}) / ${tickSeconds} AS ticks
      FROM generate_series(${dayOf(startMillis)}, ${dayOf(startMillis + storyMillis) - 1}) AS day) d`,

  events: (volume: Volume, first: number, last: number) => `
    INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body, reward)
    SELECT integrator_id, event, event_id, kind, at, now(), json_build_object('id', event_id, 'kind', kind,
      'integratorId', integrator_id, 'createdAt', ${printed("at")}, 'data', CASE WHEN state IS NULL THEN ${claim}
      ELSE ${reward} END)::text, CASE WHEN state IS NOT NULL THEN creation END
    FROM (
      SELECT r.integrator_id, r.user_id, r.external_transaction_id, r.program_id, r.creation, r.created_at,
        r.claimable_at, s.*, ${timeOf(volume, "r.creation + s.delay")} AS at, ${numberOf} AS event,
        'evt_' || i.event_salt || lpad(to_hex(${numberOf}), 12, '0') AS event_id
      FROM rewards r JOIN integrators i USING (integrator_id)
      CROSS JOIN (VALUES ${steps}) AS s(step, kind, state, delay)
      WHERE r.integrator_id = ${quoted(volume.integratorId)} AND r.creation BETWEEN ${first} AND ${last}
    ) numbered`,

  vault: ({ integratorId, startMillis }: Volume) => [
    `UPDATE vaults SET rewards = ${rewardCount}, events = ${eventCount} WHERE integrator_id = ${quoted(integratorId)}`,
    `UPDATE vault_balances SET held = ${margin}, free = ${margin}, day = ${dayOf(startMillis + storyMillis)},
      deposits = ${earned * rewardCount + margin}, claims = ${earned * rewardCount},
      earned = ${earned * rewardCount}, matured = ${earned * rewardCount}
      WHERE integrator_id = ${quoted(integratorId)} AND asset = 'USDC'`,
    `UPDATE webhook_endpoints SET cursor = ${eventCount} WHERE integrator_id = ${quoted(integratorId)}`
  ]
}

const dayOf = (millis: number): number => Math.floor(millis / 86_400_000)

/** SQL for how many rewards are so many ticks behind. */
const countOf = (ticks: string, delay: number): string =>
  `greatest(0, least(${rewardCount}, ${ticks} - ${delay}))::numeric`

const stepList = [
  ["reward.awaiting_funding", "'AwaitingFunding'", 0],
  ["reward.pending", "'Pending'", funded],
  ["reward.claimable", "'Claimable'", matured],
  ["vault.claim_confirmed", "NULL", claimed],
  ["reward.paid", "'Paid'", claimed]
] as const

const steps = stepList.map(([kind, state, delay], index) => `(${index}, '${kind}', ${state}, ${delay})`).join(", ")

/** The number of an event by time: the events of earlier ticks, and those of earlier steps in its tick. */
const numberOf = `(1 + ${stepList
  .map(
    ([, , delay], index) => `greatest(0, least(${rewardCount}, r.creation + s.delay - 1 - ${delay}))
      + (${index} < s.step AND r.creation + s.delay - ${delay} BETWEEN 1 AND ${rewardCount})::int`
  )
  .join(" + ")})::bigint`

const printed = (column: string): string => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const rewardId = "concat_ws(':', 'rw', integrator_id, user_id, 'clearing', external_transaction_id, program_id)"

const claim = `json_build_object('vaultId', 'sandbox', 'reference', 'claim-' || creation,
  'amount', json_build_object('asset', 'USDC', 'amount', '${earned}'),
  'balance', json_build_object('held', '${margin}', 'free', '${margin}'), 'userId', user_id, 'rewardCount', 1,
  'rewards', json_build_array(json_build_object('id', ${rewardId}, 'amount', '${earned}')))`

const reward = `json_build_object('id', ${rewardId}, 'userId', user_id, 'programId', program_id, 'programVersion', 1,
  'transaction', json_build_object('kind', 'clearing', 'externalTransactionId', external_transaction_id),
  'state', state, 'amount', json_build_object('asset', 'USDC', 'amount', '${earned}'),
  'spend', json_build_object('currency', 'USD', 'amount', '${cents}'), 'claimableAt', ${printed("claimable_at")},
  'createdAt', ${printed("created_at")}, 'updatedAt', ${printed("at")}, 'revision', least(step + 1, 4),
  'earned', '${earned}', 'paid', CASE WHEN state = 'Paid' THEN '${earned}' ELSE '0' END, 'recovered', '0',
  'clawedBack', '0', 'refundedSpend', '0')`
