import { Integrators } from "@card-rewards/core/Integrators"
import * as Ledger from "@card-rewards/core/Ledger"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { UserBalance } from "@card-rewards/domain/Balance"
import { IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { Enrollment } from "@card-rewards/domain/User"
import { Vault as VaultState } from "@card-rewards/domain/Vault"
import { Clock, Effect, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { isDeepStrictEqual } from "node:util"
import { processAll, spendEvent } from "../Spending.ts"
import type { Operation, Sum } from "./Generate.ts"
import { type LogEntry, Model, type Spend } from "./Model.ts"

/** Where the service and the model part: what was compared after which operation, and both sides. */
export interface Mismatch {
  readonly index: number
  readonly what: string
  readonly expected: unknown
  readonly actual: unknown
  readonly story: ReadonlyArray<string>
}

let made = 0

/** How a run is done. */
export interface RunOptions {
  /**
   * How many waiting rewards one transaction reserves one by one; the others are reserved when their users are looked
   * at. Then several users' events also come in one batch, and nothing but the order of events among rewards, and
   * `updatedAt`, may differ from the model.
   */
  readonly servedAtOnce?: number
  /** How many due rewards one transaction applies; with few, most operations take several. */
  readonly pieceSize?: number
}

/** Does the operations on a fresh integrator and on a fresh model; answers the first difference, or undefined. */
export const run = (operations: ReadonlyArray<Operation>, options: RunOptions = {}) =>
  options.servedAtOnce === undefined
    ? runAll(operations, exact)
    : runAll(operations, reordered(options.pieceSize === undefined)).pipe(
      Effect.provideService(Ledger.ServedAtOnce, options.servedAtOnce),
      Effect.provideService(Ledger.PieceSize, options.pieceSize ?? 1_000)
    )

/** What of the rewards and of the log has to be as the model says. */
interface View {
  readonly manyUsersPerBatch: boolean
  readonly rewards: (rewards: ReadonlyArray<unknown>) => ReadonlyArray<unknown>
  readonly log: (log: ReadonlyArray<LogEntry>) => ReadonlyArray<unknown>
}

const exact: View = { manyUsersPerBatch: false, rewards: (rewards) => rewards, log: (log) => log }

const withoutUpdatedAt = (data: unknown): object => ({ ...data as object, updatedAt: undefined })

/** Where what is due takes several transactions, an operation's own may leave less free money than all of them. */
const withoutFree = ({ data, kind }: LogEntry) => {
  const { balance: { held }, ...movement } = data as { balance: { held: string } }
  return { kind, data: { ...movement, held } }
}

/** The vault's events in their order, then each reward's in theirs. */
const reordered = (isWhole: boolean): View => ({
  manyUsersPerBatch: true,
  rewards: (rewards) => rewards.map(withoutUpdatedAt),
  log: (log) => {
    const ofVault = log.filter(({ kind }) => kind.startsWith("vault."))
    const byReward = Map.groupBy(log.filter((entry) => !ofVault.includes(entry)), ({ data }) =>
      (data as { id: string }).id)
    return [...(isWhole ? ofVault : ofVault.map(withoutFree)), ...[...byReward.keys()].sort().flatMap((id) =>
      (byReward.get(id) ?? []).map(({ data, kind }) => ({ kind, data: withoutUpdatedAt(data) })))]
  }
})

const runAll = Effect.fnUntraced(function*(operations: ReadonlyArray<Operation>, view: View) {
  const integratorId = IntegratorId.make(`model-${++made}`)
  const { create } = yield* Integrators
  yield* create(integratorId)
  const model = new Model(integratorId, yield* Clock.currentTimeMillis)
  const story: Array<string> = []
  for (const [index, operation] of operations.entries()) {
    const difference = yield* step(integratorId, model, operation, story, view)
    if (difference !== undefined) return { index, story, ...difference } satisfies Mismatch
  }
  return undefined
})

type Difference = Pick<Mismatch, "what" | "expected" | "actual"> | undefined

const compare = (what: string, expected: unknown, actual: unknown): Difference =>
  isDeepStrictEqual(expected, actual) ? undefined : { what, expected, actual }

const step = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  model: Model,
  operation: Operation,
  story: Array<string>,
  view: View
) {
  if (operation.op === "check") {
    yield* processAll
    model.process()
    return yield* check(integratorId, model, view)
  }
  if (operation.op === "spend" || operation.op === "again") {
    const spend = operation.op === "again" ? pickStored(model, operation.pick) : toSpend(model, operation)
    if (spend === undefined) return undefined
    if (!view.manyUsersPerBatch && model.unprocessed !== undefined && model.unprocessed !== spend.user) {
      yield* processAll
      model.process()
    }
    tell(story, model, `${operation.op} ${JSON.stringify(readable(spend))}${"later" in operation && operation.later ? " (processed later)" : ""}`)
    const expected = model.submit(spend)
    const difference = compare("the answer of submit", expected, yield* submit(integratorId, spend))
    if (difference !== undefined || (operation.op === "spend" && operation.later)) return difference
    yield* processAll
    model.process()
    return undefined
  }
  if (operation.op === "worker") {
    const { matureRewards } = yield* Processing
    tell(story, model, "matureRewards until 0")
    while ((yield* matureRewards) > 0);
    model.settleAll()
    return undefined
  }
  if (operation.op === "clock") {
    const next = model.nextClaimableAt() ?? model.now + 60_000
    const to = operation.to === "claimable" ? next : operation.to === "before" ? next - 1 : model.now + operation.to
    tell(story, model, `clock to ${printTimestamp(to)}`)
    yield* (yield* SandboxClock).set(integratorId, instant(to))
    model.now = to
    return undefined
  }
  if (operation.op === "put") {
    tell(story, model, `put ${operation.user} ${JSON.stringify(operation.attributes)}`)
    const enrollment = Schema.decodeUnknownSync(Enrollment)(operation.attributes)
    const { outcome } = yield* (yield* Users).put(integratorId, UserId.make(operation.user), enrollment)
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ lane: number }>`
      SELECT lane FROM users WHERE integrator_id = ${integratorId} AND user_id = ${operation.user}`
    model.lanes.set(operation.user, row?.lane ?? 0)
    return compare("the outcome of put", model.put(operation.user, operation.attributes), outcome)
  }
  if (operation.op === "publish") return yield* publish(integratorId, model, operation, story)
  return yield* move(integratorId, model, operation, story)
})

const tell = (story: Array<string>, model: Model, line: string) => {
  story.push(`${printTimestamp(model.now)}  ${line}`)
}

const readable = ({ cents, occurredAt, ...spend }: Spend) => ({
  ...spend,
  cents: `${cents}`,
  occurredAt: printTimestamp(occurredAt)
})

const pickStored = (model: Model, index: number): Spend | undefined => {
  const all = [...model.stored.values()]
  return all[index % Math.max(all.length, 1)]
}

const toSpend = (model: Model, operation: Operation & { readonly op: "spend" }): Spend => {
  const { agoMillis, later: _later, op: _op, ...spend } = operation
  return { ...spend, occurredAt: model.now - agoMillis }
}

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
  const answer = yield* Effect.result((yield* SpendEvents).submit(event))
  return Result.isFailure(answer) ? answer.failure._tag : answer.success.duplicate ? "duplicate" : "accepted"
})

const publish = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  model: Model,
  operation: Operation & { readonly op: "publish" },
  story: Array<string>
) {
  const { leadMillis, program, roundMillis, version } = operation
  const effectiveFrom = printTimestamp(Math.ceil((model.now + leadMillis) / roundMillis) * roundMillis)
  const definition = { ...operation.definition, effectiveFrom }
  tell(story, model, `publish ${program} version ${version} ${JSON.stringify(definition)}`)
  const decoded = Schema.decodeUnknownSync(ProgramDefinition)(definition)
  const answer = yield* Effect.result(
    (yield* Programs).publish(integratorId, ProgramId.make(program), version, decoded, [])
  )
  const actual = Result.isFailure(answer) ? answer.failure._tag : answer.success.duplicate ? "duplicate" : "published"
  return compare("the answer of publish", model.publish(program, version, definition), actual)
})

const move = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  model: Model,
  operation: Operation & { readonly op: "deposit" | "withdraw" | "claim" },
  story: Array<string>
) {
  const { asset, op, reference } = operation
  const rich = [...model.users.keys()].find((one) => model.claimable(one, asset) > 0n)
  const user = operation.amount === "first" || operation.amount === "half" ? rich ?? operation.user : operation.user
  const amount = resolve(model, { ...operation, user })
  const movement = { reference: Reference.make(reference), amount: { asset, amount } }
  tell(story, model, `${op} ${amount} ${asset}${op === "claim" ? ` for ${user}` : ""} (${reference})`)
  const vault = yield* Vault
  const answer = yield* Effect.result(
    op === "deposit"
      ? vault.deposit(integratorId, movement)
      : op === "withdraw"
      ? vault.withdraw(integratorId, movement)
      : vault.claim(integratorId, { ...movement, userId: UserId.make(user) })
  )
  const actual = Result.isFailure(answer) ? answer.failure._tag : answer.success.duplicate ? "duplicate" : "recorded"
  const expected = op === "claim"
    ? model.claim({ reference, asset, amount, user })
    : op === "deposit"
    ? model.deposit({ reference, asset, amount })
    : model.withdraw({ reference, asset, amount })
  return compare(`the answer of ${op}`, expected, actual)
})

const resolve = (model: Model, operation: Operation & { readonly op: "deposit" | "withdraw" | "claim" }): bigint => {
  const { amount, asset, op, user } = operation
  const first = op === "deposit"
    ? (model.firstWaiting(asset) ?? model.freeOf(asset) + (asset === "USDC" ? 20_000n : 2n * 10n ** 16n)) - model.freeOf(asset)
    : op === "withdraw"
    ? model.freeOf(asset)
    : model.claimable(user, asset)
  const sums: Record<Exclude<Sum, bigint>, bigint> = {
    first,
    "first-1": first - 1n,
    "first+1": first + 1n,
    half: first / 2n
  }
  const wanted = typeof amount === "bigint" ? amount : sums[amount]
  return wanted < 0n ? 0n : wanted
}

/** Everything that can be seen: balances user by user (each read settles), the vault, the rewards, the events. */
const check = Effect.fnUntraced(function*(integratorId: IntegratorId, model: Model, view: View) {
  const rewards = yield* Rewards
  for (const user of model.users.keys()) {
    const read = yield* rewards.balance(integratorId, UserId.make(user))
    model.settle([user])
    const actual = Schema.encodeSync(UserBalance)(read)
    const difference = compare(`balance of ${user}`, { userId: user, balances: model.balance(user) }, actual)
    if (difference !== undefined) return difference
  }
  const vault = Schema.encodeSync(VaultState)(yield* (yield* Vault).get(integratorId))
  const ofVault = compare("the vault", { vaultId: "sandbox", balances: model.vault() }, vault)
  if (ofVault !== undefined) return ofVault
  for (const user of model.users.keys()) {
    const difference = compare(
      `rewards of ${user}`,
      view.rewards(model.list(user)),
      view.rewards(yield* allRewards(integratorId, UserId.make(user)))
    )
    if (difference !== undefined) return difference
  }
  return compareLogs(view.log(model.log), view.log(yield* events(integratorId)))
})

const allRewards = Effect.fnUntraced(function*(integratorId: IntegratorId, user: UserId) {
  const rewards = yield* Rewards
  const found: Array<unknown> = []
  let cursor: string | undefined
  do {
    const page = yield* rewards.list(integratorId, user, { limit: 7, cursor })
    found.push(...page.rewards)
    cursor = page.next
  } while (cursor !== undefined)
  return found
})

const Body = Schema.fromJsonString(Schema.Struct({ kind: Schema.String, data: Schema.Json }))

const events = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ body: string }>`SELECT body FROM events WHERE integrator_id = ${integratorId} ORDER BY event`
  return rows.map(({ body }): LogEntry => Schema.decodeUnknownSync(Body)(body))
})

const compareLogs = (expected: ReadonlyArray<unknown>, actual: ReadonlyArray<unknown>): Difference => {
  const length = Math.max(expected.length, actual.length)
  for (let index = 0; index < length; index++) {
    if (isDeepStrictEqual(expected[index], actual[index])) continue
    return {
      what: `event ${index} and on`,
      expected: expected.slice(index, index + 5),
      actual: actual.slice(index, index + 5)
    }
  }
  return undefined
}
