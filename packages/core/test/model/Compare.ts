import { Rewards } from "@card-rewards/core/Rewards"
import { SpendEventStatuses } from "@card-rewards/core/SpendEventStatuses"
import { Vault } from "@card-rewards/core/Vault"
import { type IntegratorId, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Timestamp } from "@card-rewards/domain/Time"
import { Vault as VaultState } from "@card-rewards/domain/Vault"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { isDeepStrictEqual } from "node:util"
import type { Model } from "./Model.ts"
import type { LogEntry } from "./Money.ts"
import { untilAvailable } from "./Worker.ts"

/** A difference: the value of the model and that of the service. */
export interface Difference {
  readonly what: string
  readonly expected: unknown
  readonly actual: unknown
}

export const compare = (what: string, expected: unknown, actual: unknown): Difference | undefined =>
  isDeepStrictEqual(expected, actual) ? undefined : { what, expected, actual }

/** The number of concurrent reads of what no operation changes meanwhile. */
export const readAtOnce = 10

/** Which parts of the rewards and of the event log must equal the model's. */
export interface View {
  readonly rewards: (rewards: ReadonlyArray<unknown>) => ReadonlyArray<unknown>
  readonly log: (log: ReadonlyArray<LogEntry>) => ReadonlyArray<unknown>
}

/** Everything, with the events in the order of the model. */
export const exact: View = { rewards: (rewards) => rewards, log: (log) => log }

const withoutUpdatedAt = (data: unknown): object => ({ ...data as object, updatedAt: undefined })

/** The free money in a movement's event: later transactions, which carry out its effects, may free more. */
const withoutFree = ({ data, kind }: LogEntry): object => {
  const { balance, ...movement } = data as { readonly balance?: { readonly held: string } }
  return { kind, data: { ...movement, held: balance?.held } }
}

/** The event of a claim lists the rewards that the claim's own transaction pays. */
const withListed = (listed: number) => (entry: LogEntry): LogEntry => {
  if (entry.kind !== "vault.claim_confirmed") return entry
  const data = entry.data as { readonly rewards: ReadonlyArray<unknown> }
  return { ...entry, data: { ...data, rewards: data.rewards.slice(0, listed) } }
}

/**
 * Everything except `updatedAt` and, unless all due rewards fit into one transaction, the free money in the events of
 * movements: the vault's events in order, then the events of each reward in order.
 */
export const byReward = (isWhole: boolean, listed: number): View => ({
  rewards: (rewards) => rewards.map(withoutUpdatedAt),
  log: (log) => {
    const [ofRewards, all] = partition(log, ({ kind }) => kind.startsWith("reward."))
    const ofVault = all.map(withListed(listed))
    const groups = Map.groupBy(ofRewards, ({ data }) => (data as { id: string }).id)
    return [...(isWhole ? ofVault : ofVault.map(withoutFree)), ...[...groups.keys()].sort().flatMap((id) =>
      (groups.get(id) ?? []).map(({ data, kind }) => ({ kind, data: withoutUpdatedAt(data) })))]
  }
})

const partition = <A>(list: ReadonlyArray<A>, is: (one: A) => boolean) =>
  [list.filter(is), list.filter((one) => !is(one))] as const

/** One user's balance; the read applies what is due, in the model as in the service. */
export const compareBalance = Effect.fnUntraced(function*(integratorId: IntegratorId, model: Model, user: string) {
  const rewards = yield* Rewards
  const read = yield* untilAvailable(rewards.balance(integratorId, UserId.make(user)))
  model.applyDue([user])
  const expected = { userId: user, balances: model.balance(user) }
  return compare(`balance of ${user}`, expected, read)
})

/** One user's rewards, all pages. */
export const compareRewards = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  user: string,
  expected: ReadonlyArray<unknown>,
  view: View
) {
  const actual = view.rewards(yield* allRewards(integratorId, UserId.make(user), expected.length))
  return firstDifference(`rewards of ${user}`, view.rewards(expected), actual)
})

/** What became of each stored event. */
export const compareStatuses = Effect.fnUntraced(function*(integratorId: IntegratorId, model: Model) {
  const differences = yield* Effect.forEach(model.statuses(), (event) => compareStatus(integratorId, event), {
    concurrency: readAtOnce
  })
  return differences.find((one) => one !== undefined)
})

const compareStatus = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  { kind, status: expected, transaction, user }: ReturnType<Model["statuses"]>[number]
) {
  const externalTransactionId = TransactionId.make(transaction)
  const { get } = yield* SpendEventStatuses
  const found = yield* untilAvailable(get(integratorId, { userId: UserId.make(user), kind, externalTransactionId }))
  const { event: _, id: __, outcomes, receivedAt: ___, ...status } = found
  const own = outcomes?.map(({ rewardId, ...outcome }) => {
    const hasId = rewardId === `rw:${integratorId}:${user}:clearing:${transaction}:${outcome.programId}`
    return hasId === (outcome.amount !== undefined) ? outcome : { ...outcome, rewardId }
  })
  return compare(`${kind} ${transaction} of ${user}`, expected, { ...status, ...(own && { outcomes: own }) })
})

/** The vault's balances. */
export const compareVault = Effect.fnUntraced(function*(integratorId: IntegratorId, model: Model) {
  const vault = Schema.encodeSync(VaultState)(yield* (yield* Vault).get(integratorId))
  return compare("the vault", { vaultId: "sandbox", balances: model.vault() }, vault)
})

/** The log of events after the first ones, whose number is given. */
export const compareLog = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  model: Model,
  view: View,
  after: number
) {
  return firstDifference("event", view.log(model.log.slice(after)), view.log(yield* events(integratorId, after)))
})

/** Pages of 7, so that small lists have several, and of more where there are thousands. */
const allRewards = Effect.fnUntraced(function*(integratorId: IntegratorId, user: UserId, expected: number) {
  const rewards = yield* Rewards
  const limit = expected > 100 ? 1_000 : 7
  const found: Array<unknown> = []
  let cursor: string | undefined
  do {
    const page = yield* untilAvailable(rewards.list(integratorId, user, { limit, cursor }))
    found.push(...page.rewards)
    cursor = page.next
  } while (cursor !== undefined)
  return found
})

const Body = Schema.fromJsonString(
  Schema.Struct({ createdAt: Timestamp, kind: Schema.String, data: Schema.Json })
)

const events = Effect.fnUntraced(function*(integratorId: IntegratorId, after: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ body: string }>`
    SELECT body FROM events WHERE integrator_id = ${integratorId} ORDER BY event OFFSET ${after}`
  return rows.map(({ body }): LogEntry => {
    const { createdAt, data, kind } = Schema.decodeUnknownSync(Body)(body)
    return { at: createdAt, kind, data }
  })
})

/** The first entries that differ, and the four after them. */
const firstDifference = (
  what: string,
  expected: ReadonlyArray<unknown>,
  actual: ReadonlyArray<unknown>
): Difference | undefined => {
  const length = Math.max(expected.length, actual.length)
  for (let index = 0; index < length; index++) {
    if (isDeepStrictEqual(expected[index], actual[index])) continue
    return {
      what: `${what}, from ${index} of ${expected.length} on`,
      expected: expected.slice(index, index + 5),
      actual: actual.slice(index, index + 5)
    }
  }
  return undefined
}
