import { Programs } from "@card-rewards/core/Programs"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { type IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { laneOf } from "@card-rewards/domain/Lane"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Enrollment } from "@card-rewards/domain/User"
import { spendEvent } from "@card-rewards/testing/Fixtures"
import { Effect, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { compare, type View } from "./Compare.ts"
import type { Operation } from "./Operation.ts"
import type { Model } from "./Model.ts"
import type { Spend } from "./Spend.ts"
import { processEvents, untilAvailable } from "./Worker.ts"

/** A running story: the same requests go to the service and to the model. */
export interface Run {
  readonly integratorId: IntegratorId
  readonly model: Model
  /** One line for each operation. */
  readonly story: Array<string>
  readonly view: View
  readonly manyUsersPerBatch: boolean
  readonly bulk: boolean
  /** Whether each purchase is quoted before its clearing is sent. */
  readonly quoted: boolean
  readonly paidAtOnce: number
  /** Spend events that a bulk run has not sent yet. */
  readonly unsent: Array<Spend>
  /** Whether `reward.paid` events of a claim may be missing until the worker has run. */
  paysLater: boolean
  /** What the last check has compared and found equal, so that the next one need not read it again. */
  readonly compared: Compared
}

interface Compared {
  /** The rewards by user. */
  readonly rewards: Map<string, ReadonlyArray<unknown>>
  /** The number of events of the log. */
  events: number
  /** The number of events, and the day, of the statements. */
  statements: string
}

export const record = ({ model, story }: Run, line: string): void => {
  story.push(`${printTimestamp(model.now)}  ${line}`)
}

/** The number of concurrent posts: fewer than make the service run two inserts at the same time. */
const sentAtOnce = 90

/** Sends the spend events that were not sent yet, and processes them, lane by lane. */
export const sendAll = Effect.fnUntraced(function*(run: Run) {
  const lanes = Map.groupBy(run.unsent.splice(0), ({ user }) => laneOf(user))
  for (const lane of [...lanes.keys()].sort((left, right) => left - right)) {
    const spends = lanes.get(lane) ?? []
    for (let at = 0; at < spends.length; at += sentAtOnce) {
      const difference = yield* send(run, spends.slice(at, at + sentAtOnce))
      if (difference !== undefined) return difference
    }
    yield* processEvents(run.integratorId)
    run.model.process()
  }
  return undefined
})

/** Sends spend events concurrently; the model gets them in the order in which the service has stored them. */
export const send = Effect.fnUntraced(function*({ integratorId, model }: Run, spends: ReadonlyArray<Spend>) {
  const answers = yield* Effect.forEach(spends, (spend) => submit(integratorId, spend), { concurrency: "unbounded" })
  const both = spends.map((spend, index) => ({ spend, answer: answers[index] }))
  const ranks = spends.length === 1 ? new Map<string, number>() : yield* arrivals(integratorId, spends)
  const rank = ({ kind, transaction, user }: Spend) => ranks.get(JSON.stringify([user, kind, transaction])) ?? -1
  for (const { answer, spend } of both.sort((left, right) => rank(left.spend) - rank(right.spend))) {
    const difference = compare("the answer of submit", model.submit(spend), answer)
    if (difference !== undefined) return difference
  }
  return undefined
})

/** The ranks of stored events, in order of arrival. */
const arrivals = Effect.fnUntraced(function*(integratorId: IntegratorId, spends: ReadonlyArray<Spend>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ userId: string; kind: string; externalTransactionId: string }>`
    SELECT user_id, kind, external_transaction_id FROM spend_events
    WHERE integrator_id = ${integratorId} AND user_id IN ${sql.in([...new Set(spends.map(({ user }) => user))])}
      AND external_transaction_id IN ${sql.in(spends.map(({ transaction }) => transaction))}
    ORDER BY arrival`
  return new Map(rows.map((row, rank) => [JSON.stringify([row.userId, row.kind, row.externalTransactionId]), rank]))
})

const submit = Effect.fnUntraced(function*(integratorId: IntegratorId, spend: Spend) {
  const event = spendEvent(integratorId, spend.user, spend.occurredAt, {
    kind: spend.kind,
    externalTransactionId: spend.transaction,
    amount: { currency: spend.currency, amount: `${spend.cents}` },
    merchant: { descriptor: "Shop", mcc: spend.mcc },
    ...(spend.original === undefined
      ? {}
      : { [spend.kind === "refund" ? "originalTransactionId" : "authorizationId"]: spend.original })
  })
  const answer = yield* Effect.result(untilAvailable((yield* SpendEvents).submit(event)))
  return Result.isFailure(answer) ? answer.failure._tag : answer.success.duplicate ? "duplicate" : "accepted"
})

export const put = Effect.fnUntraced(function*(run: Run, operation: Operation & { readonly op: "put" }) {
  const { integratorId, model } = run
  const { attributes, user } = operation
  record(run, `put ${user} ${JSON.stringify(attributes)}`)
  const enrollment = Schema.decodeUnknownSync(Enrollment)(attributes)
  const { outcome } = yield* (yield* Users).put(integratorId, UserId.make(user), enrollment)
  return compare("the outcome of put", model.put(user, attributes), outcome)
})

export const publish = Effect.fnUntraced(function*(run: Run, operation: Operation & { readonly op: "publish" }) {
  const { integratorId, model } = run
  const { leadMillis, program, roundMillis, version } = operation
  const effectiveFrom = printTimestamp(Math.ceil((model.now + leadMillis) / roundMillis) * roundMillis)
  const definition = { ...operation.definition, effectiveFrom }
  record(run, `publish ${program} version ${version} ${JSON.stringify(definition)}`)
  const decoded = Schema.decodeUnknownSync(ProgramDefinition)(definition)
  const answer = yield* Effect.result(
    (yield* Programs).publish(integratorId, ProgramId.make(program), version, decoded, [])
  )
  const actual = Result.isFailure(answer) ? answer.failure._tag : answer.success.duplicate ? "duplicate" : "published"
  return compare("the answer of publish", model.publish(program, version, definition), actual)
})

type Move = Operation & { readonly op: "deposit" | "withdraw" | "claim" }

/** A deposit, a withdrawal or a claim. */
export const move = Effect.fnUntraced(function*(run: Run, operation: Move) {
  const { integratorId, model } = run
  const { asset, op, reference } = operation
  const user = userOf(model, operation)
  const amount = resolve(model, { ...operation, user })
  const movement = { reference: Reference.make(reference), amount: { asset, amount } }
  record(run, `${op} ${amount} ${asset}${op === "claim" ? ` for ${user}` : ""} (${reference})`)
  const vault = yield* Vault
  const answer = yield* Effect.result(untilAvailable(
    op === "deposit"
      ? vault.deposit(integratorId, movement)
      : op === "withdraw"
      ? vault.withdraw(integratorId, movement)
      : vault.claim(integratorId, { ...movement, userId: UserId.make(user) })
  ))
  const actual = Result.isFailure(answer) ? answer.failure._tag : answer.success.duplicate ? "duplicate" : "recorded"
  return compare(`the answer of ${op}`, moveModel(run, op, { reference, asset, amount, user }), actual)
})

const moveModel = (run: Run, op: Move["op"], movement: Parameters<Model["claim"]>[0]): string => {
  const { amount, asset, reference } = movement
  if (op === "deposit") return run.model.deposit({ reference, asset, amount })
  if (op === "withdraw") return run.model.withdraw({ reference, asset, amount })
  const answer = run.model.claim(movement)
  if (answer === "recorded" && run.model.lastClaimPaid > run.paidAtOnce) run.paysLater = true
  return answer
}

/** The claiming user: with `pick` one of those with claimable money. */
const userOf = (model: Model, { amount, asset, op, pick, user }: Move): string => {
  if (op !== "claim" || typeof amount === "bigint" || amount === "first-1" || amount === "first+1") return user
  const all = [...model.users.keys()].filter((one) => model.claimable(one, asset) > 0n)
  return all[(pick ?? 0) % Math.max(all.length, 1)] ?? user
}

const resolve = (model: Model, { amount, asset, op, user }: Move): bigint => {
  if (typeof amount === "bigint") return amount
  const free = model.freeOf(asset)
  const small = asset === "USDC" ? 20_000n : 2n * 10n ** 16n
  if (typeof amount === "object") {
    const whole = op === "deposit" ? model.allWaiting(asset) : op === "withdraw" ? free : model.claimable(user, asset)
    return whole * BigInt(amount.share) / 10_000n
  }
  const first = op === "deposit"
    ? (model.firstWaiting(asset) ?? free + small) - free
    : op === "withdraw"
    ? free
    : model.claimable(user, asset)
  const sums = { first, "first-1": first - 1n, "first+1": first + 1n, half: first / 2n }
  return sums[amount] < 0n ? 0n : sums[amount]
}
