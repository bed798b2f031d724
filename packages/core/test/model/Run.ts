import { Integrators } from "@card-rewards/core/Integrators"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { Cause, Clock, Effect, identity, Layer } from "effect"
import { isDeepStrictEqual } from "node:util"
import { compareBalance, compareLog, compareRewards, compareStatuses, compareVault } from "./Compare.ts"
import { compareStatements } from "./Statement.ts"
import { compareQuotes, readQuotes } from "./Quotes.ts"
import { byReward, type Difference, exact } from "./Compare.ts"
import type { Operation } from "./Operation.ts"
import { defaultPaidAtOnce, type Limits, withLimits } from "./Limits.ts"
import { Model } from "./Model.ts"
import type { Spend } from "./Spend.ts"
import * as Requests from "./Requests.ts"
import type { Run } from "./Requests.ts"
import { abandon, matureRewards, processEvents, restarting } from "./Worker.ts"

/** A difference between the service and the model: what was compared after which operation, and both values. */
export interface Mismatch extends Difference {
  readonly index: number
  readonly story: ReadonlyArray<string>
}

/** How a story is run. */
export interface RunOptions {
  /**
   * Limits of the ledger. With them the service does in several transactions what the model does in one: then only the
   * order of events among rewards, and `updatedAt`, may differ from the model.
   */
  readonly limits?: Limits
  /**
   * Spend events that are processed later are sent together before the next other operation, and processed lane by
   * lane, so that their order of application is known for any number of them. Compared as with limits, unless all are
   * of one user, so that also the order of all events is known.
   */
  readonly bulk?: boolean | "of one user"
  /** Each purchase is quoted before its clearing is sent, and must earn what the quote says. */
  readonly quoted?: boolean
  /** The worker starts anew before each step. */
  readonly restarting?: boolean
  /** The integrator's id; one that no other run has, where absent. */
  readonly integratorId?: IntegratorId
}

let made = 0

/**
 * Runs the operations on a new integrator and on a new model. Returns the first difference, or undefined. Users are
 * read by a service that is built with the limits: it applies what is due in fibers of its own.
 */
export const run = (operations: ReadonlyArray<Operation>, options: RunOptions = {}) =>
  runAll(operations, options).pipe(
    options.restarting === true ? Effect.provide(restarting) : identity,
    Effect.provide(Layer.fresh(Rewards.layer)),
    withLimits(options.limits ?? {})
  )

const runAll = Effect.fnUntraced(function*(operations: ReadonlyArray<Operation>, options: RunOptions) {
  const { integratorId = IntegratorId.make(`model-${++made}`) } = options
  const { create } = yield* Integrators
  yield* create(integratorId)
  const paidAtOnce = options.limits?.paidAtOnce ?? defaultPaidAtOnce
  const { bulk = false } = options
  const manyUsersPerBatch = options.limits !== undefined || bulk === true
  const run: Run = {
    integratorId,
    model: new Model(integratorId, yield* Clock.currentTimeMillis),
    story: [],
    view: manyUsersPerBatch
      ? byReward(options.limits?.pieceSize === undefined && bulk !== true, paidAtOnce)
      : exact,
    manyUsersPerBatch,
    bulk: bulk !== false,
    quoted: options.quoted === true,
    paidAtOnce,
    unsent: [],
    paysLater: false,
    compared: { rewards: new Map(), events: 0, statements: "" }
  }
  for (const [index, operation] of operations.entries()) {
    const isLast = index === operations.length - 1
    const difference = yield* step(run, operation, isLast).pipe(
      Effect.catchCause((cause) => Effect.succeed(failure(cause)))
    )
    if (difference === undefined) continue
    yield* abandon(integratorId)
    return { index, story: run.story, ...difference } satisfies Mismatch
  }
  const difference = yield* compareStatuses(integratorId, run.model)
  return difference && { index: operations.length - 1, story: run.story, ...difference } satisfies Mismatch
})

/** The service or the model has failed in a place where neither may. */
const failure = (cause: Cause.Cause<unknown>): Difference => ({
  what: `a failure: ${Cause.prettyErrors(cause)[0]?.message}`,
  expected: "no failure",
  actual: Cause.pretty(cause)
})

const step = Effect.fnUntraced(function*(run: Run, operation: Operation, isLast: boolean) {
  const { integratorId, model } = run
  if (operation.op === "spend" || operation.op === "again" || operation.op === "refund") {
    return yield* spend(run, operation)
  }
  const unsent = yield* Requests.sendAll(run)
  if (unsent !== undefined) return unsent
  switch (operation.op) {
    case "check": {
      yield* processAll(run)
      return yield* check(run, isLast)
    }
    case "read": {
      yield* processAll(run)
      if (!model.users.has(operation.user)) return undefined
      Requests.record(run, `read ${operation.user}`)
      const difference = yield* compareBalance(integratorId, model, operation.user)
      if (difference !== undefined || run.paysLater) return difference
      return yield* compareRewards(integratorId, operation.user, model.list(operation.user), run.view)
    }
    case "worker":
      return yield* work(run)
    case "clock":
      return yield* moveClock(run, operation.to)
    case "put":
      return yield* Requests.put(run, operation)
    case "publish":
      return yield* Requests.publish(run, operation)
    default:
      return yield* Requests.move(run, operation)
  }
})

const processAll = Effect.fnUntraced(function*({ integratorId, model }: Run) {
  yield* processEvents(integratorId)
  model.process()
})

const work = Effect.fnUntraced(function*(run: Run) {
  Requests.record(run, "matureRewards until 0")
  yield* matureRewards
  run.model.applyAllDue()
  run.paysLater = false
  return undefined
})

const moveClock = Effect.fnUntraced(function*(run: Run, by: (Operation & { readonly op: "clock" })["to"]) {
  const { integratorId, model } = run
  const next = model.nextClaimableAt() ?? model.now + 60_000
  const to = by === "claimable" ? next : by === "before" ? next - 1 : model.now + by
  Requests.record(run, `clock to ${printTimestamp(to)}`)
  yield* (yield* SandboxClock).set(integratorId, instant(to))
  model.now = to
  return undefined
})

const spend = Effect.fnUntraced(function*(
  run: Run,
  operation: Operation & { readonly op: "spend" | "again" | "refund" }
) {
  const { bulk, manyUsersPerBatch, model } = run
  const spend = operation.op === "spend"
    ? toSpend(model, operation)
    : operation.op === "again"
    ? pickStored(model, operation.pick)
    : toRefund(model, operation)
  if (spend === undefined) return undefined
  const later = operation.op === "refund" || (operation.op === "spend" && operation.later)
  Requests.record(run, `${operation.op} ${JSON.stringify(readable(spend))}${later ? " (processed later)" : ""}`)
  if (bulk) {
    run.unsent.push(spend)
    return later ? undefined : yield* Requests.sendAll(run)
  }
  const isQuoted = run.quoted && spend.kind === "clearing" && spend.original === undefined && model.isNew(spend)
  if (isQuoted) yield* processAll(run)
  const quotes = isQuoted ? yield* readQuotes(run.integratorId, spend) : undefined
  if (!manyUsersPerBatch && model.unprocessed !== undefined && model.unprocessed !== spend.user) yield* processAll(run)
  const difference = yield* Requests.send(run, [spend])
  if (difference !== undefined || (later && quotes === undefined)) return difference
  yield* processAll(run)
  return quotes && (yield* compareQuotes(run.integratorId, spend, quotes))
})

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

const toRefund = (model: Model, operation: Operation & { readonly op: "refund" }): Spend | undefined => {
  const all = model.refundable(operation.ofPaid)
  const reward = all[operation.pick % Math.max(all.length, 1)]
  if (reward === undefined) return undefined
  const left = reward.spend - reward.refundedSpend
  const part = left * BigInt(operation.share) / 10_000n
  return {
    user: reward.user,
    kind: "refund",
    transaction: operation.transaction,
    currency: reward.currency,
    cents: part > 0n ? part : left,
    mcc: "5411",
    occurredAt: model.now,
    original: reward.transaction
  }
}

/** What a check compares, in order: balances user by user (each read applies due rewards), the vault, the rest. */
const check = Effect.fnUntraced(function*(run: Run, isLast: boolean) {
  const { integratorId, model } = run
  model.verify()
  for (const user of model.users.keys()) {
    const difference = yield* compareBalance(integratorId, model, user)
    if (difference !== undefined) return difference
  }
  const ofVault = yield* compareVault(integratorId, model)
  if (ofVault !== undefined) return ofVault
  if (run.paysLater) yield* work(run)
  return yield* compareChanged(run, isLast)
})

/** Rewards, events and statements: in the last check of a story all, in others what has changed in the model. */
const compareChanged = Effect.fnUntraced(function*(run: Run, isLast: boolean) {
  const { compared, integratorId, model, view } = run
  if (isLast) {
    compared.rewards.clear()
    compared.events = 0
    compared.statements = ""
  }
  for (const user of model.users.keys()) {
    const rewards = model.list(user)
    if (isDeepStrictEqual(compared.rewards.get(user), rewards)) continue
    const difference = yield* compareRewards(integratorId, user, rewards, view)
    if (difference !== undefined) return difference
    compared.rewards.set(user, rewards)
  }
  const ofLog = yield* compareLog(integratorId, model, view, compared.events)
  compared.events = model.log.length
  if (ofLog !== undefined || view !== exact) return ofLog
  const state = `${model.log.length} events on ${printTimestamp(model.now).slice(0, 10)}`
  if (state === compared.statements) return undefined
  compared.statements = state
  return yield* compareStatements(integratorId, model)
})
