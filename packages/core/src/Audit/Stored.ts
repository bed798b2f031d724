import type { AuthorizationTotals } from "@card-rewards/domain/Authorization"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns } from "../Database.ts"
import type { EarnedReward } from "../Ledger.ts"
import type { RewardRow } from "../Ledger/RewardRow.ts"
import { userKey } from "../Processing/State.ts"
import * as Unearned from "../Processing/Unearned.ts"

/** The facts about a user, as text by subject, so that rebuilt and stored facts can be compared and shown. */
export interface UserFacts {
  readonly integratorId: IntegratorId
  readonly userId: string
  /** What the user's events result in. */
  readonly facts: ReadonlyMap<string, string>
  /** Hexadecimal digests of the stored lists of the programs in which clearings earned nothing, by clearing. */
  readonly unearnedDigests: ReadonlyMap<string, string>
  /** Why an event could not be applied: then the facts are not all there are. */
  readonly fault: string | undefined
}

type Fact = readonly [subject: string, text: string]

/** The part of a reward that depends on spend events only. */
export const rewardFact = (reward: EarnedReward & Pick<RewardRow, "amount" | "refundedSpend">): Fact => [
  `reward of ${reward.externalTransactionId} by ${reward.programId}`,
  `earned ${reward.earned} ${reward.asset} by version ${reward.programVersion}, ` +
  `category ${reward.categoryId ?? "none"}, month used ${reward.monthUsedBefore}, ` +
  `category used ${reward.categoryUsedBefore}; ` +
  `amount ${reward.amount} after ${reward.refundedSpend} of ${reward.spend} refunded; ` +
  `bought ${printTimestamp(reward.purchaseAt)}, claimable ${printTimestamp(reward.claimableAt)}`
]

/**
 * The programs in which a clearing earned nothing, and why, by versions that were in force; undefined where there are
 * none. Programs without such a version are left out: they may be younger than the decision.
 */
export const unearnedFact = (clearing: {
  readonly externalTransactionId: string
  readonly unearned: ReadonlyArray<Unearned.Unearned>
}): Fact | undefined => {
  const decided = clearing.unearned.filter(({ version }) => version !== undefined)
  return decided.length === 0 ? undefined : [
    `nothing earned by ${clearing.externalTransactionId}`,
    decided.map(({ programId, reason, version }) => `${programId} ${version}: ${reason}`).join(", ")
  ]
}

/** An authorization: its totals, and what decides the rewards of its clearings. */
export const authorizationFact = (
  authorization: AuthorizationTotals & {
    readonly externalTransactionId: string
    readonly occurredAt: number
    readonly currency: string
    readonly mcc: string
    readonly tier?: string | null
    readonly country?: string | null
    readonly segment?: string | null
  }
): Fact => {
  const { authorized, closed, country, currency, externalTransactionId, incremented, mcc, occurredAt, reversed, segment,
    tier } = authorization
  return [
    `authorization ${externalTransactionId}`,
    `${authorized} + ${incremented} - ${reversed} ${currency}, ${closed ? "closed" : "open"}; ` +
    `mcc ${mcc} at ${printTimestamp(occurredAt)}, ` +
    `tier ${tier ?? "none"}, country ${country ?? "none"}, segment ${segment ?? "none"}`
  ]
}

/** The estimate of the open authorizations before caps, of one month, version and category. */
export const estimateFact = (estimate: {
  readonly month: number
  readonly programId: string
  readonly version: number
  readonly categoryId: string
  readonly authorizations: number
  readonly raw: bigint
}): Fact => {
  const { authorizations, categoryId, month, programId, raw, version } = estimate
  return [
    `estimate ${programId} ${version} month ${month} '${categoryId}'`,
    `${raw} of ${authorizations} authorizations`
  ]
}

/** The `expected` balance of an asset. */
export const expectedFact = (balance: { readonly asset: string; readonly expected: bigint }): Fact => [
  `expected ${balance.asset}`,
  `${balance.expected}`
]

/** The stored facts of these users, by {@link userKey}. */
export const readStored = Effect.fnUntraced(function*(users: ReadonlyArray<UserFacts>) {
  const sql = yield* SqlClient.SqlClient
  const facts = new Map(users.map((user) => [userKey(user), new Map<string, string>()]))
  const own = sql`unnest(${columns.text(users.map((user) => user.integratorId))},
    ${columns.text(users.map((user) => user.userId))}) AS t(integrator_id, user_id)`
  type Owned<A> = A & Pick<UserFacts, "integratorId" | "userId">
  const add = <A>(rows: ReadonlyArray<Owned<A>>, factOf: (row: A) => Fact | undefined) => {
    for (const row of rows) {
      const fact = factOf(row)
      if (fact !== undefined) facts.get(userKey(row))?.set(...fact)
    }
  }
  add(yield* sql<RewardRow>`SELECT r.* FROM ${own} JOIN rewards r USING (integrator_id, user_id)`, rewardFact)
  const lists = yield* unearnedLists(users)
  for (const user of users) {
    add(
      [...user.unearnedDigests].flatMap(([externalTransactionId, digest]) => {
        const list = lists.get(listKey(user, digest))
        return list === undefined ? [] : [{ ...user, externalTransactionId, unearned: Unearned.parse(list) }]
      }),
      unearnedFact
    )
  }
  add(
    yield* sql<Owned<Parameters<typeof authorizationFact>[0]>>`
      SELECT a.* FROM ${own} JOIN authorizations a USING (integrator_id, user_id)`,
    authorizationFact
  )
  add(
    yield* sql<Owned<Parameters<typeof estimateFact>[0]>>`
      SELECT o.* FROM ${own} JOIN open_estimates o USING (integrator_id, user_id)`,
    estimateFact
  )
  add(
    yield* sql<Owned<Parameters<typeof expectedFact>[0]>>`
      SELECT e.* FROM ${own} JOIN expected_balances e USING (integrator_id, user_id) WHERE e.expected > 0`,
    expectedFact
  )
  return facts
})

const listKey = ({ integratorId }: Pick<UserFacts, "integratorId">, digest: string) => `${integratorId}\0${digest}`

/** The stored lists that the users' clearings name, by {@link listKey}. */
const unearnedLists = Effect.fnUntraced(function*(users: ReadonlyArray<UserFacts>) {
  const sql = yield* SqlClient.SqlClient
  const named = new Map(users.flatMap((user) =>
    [...user.unearnedDigests.values()].map((digest) =>
      [listKey(user, digest), { integratorId: user.integratorId, digest }] as const)))
  const rows = yield* sql<{ readonly integratorId: IntegratorId; readonly digest: string; readonly programs: string }>`
    SELECT t.integrator_id, t.digest, l.programs
    FROM unnest(${columns.text([...named.values()].map(({ integratorId }) => integratorId))},
      ${columns.text([...named.values()].map(({ digest }) => digest))}) AS t(integrator_id, digest)
    JOIN unearned_lists l ON l.integrator_id = t.integrator_id AND l.digest = decode(t.digest, 'hex')`
  return new Map(rows.map((row) => [listKey(row, row.digest), row.programs]))
})
