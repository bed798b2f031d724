import { close, increment, openCents, reverse } from "@card-rewards/domain/Authorization"
import { applyCaps, evaluate } from "@card-rewards/domain/Evaluation"
import { assetOfCurrency } from "@card-rewards/domain/Money"
import { netOfRefunds } from "@card-rewards/domain/Reward"
import { dayMillis, monthOf } from "@card-rewards/domain/Time"
import type { EarnedReward } from "../Ledger.ts"
import {
  type AuthorizationState,
  type ClearingReward,
  eventKey,
  groupOf,
  type State,
  type StoredEvent,
  transactionKey
} from "./State.ts"

/** A change of the vault's rewards that follows from an applied event. */
export type Order =
  | { readonly kind: "earn"; readonly reward: EarnedReward }
  | {
    readonly kind: "refund"
    readonly userId: string
    readonly externalTransactionId: string
    readonly programIds: ReadonlyArray<string>
    readonly refundedCents: bigint
  }

/** Whether the event that this event refers to is applied; true where it refers to none. */
export const isReady = (state: State, event: StoredEvent): boolean => {
  if (event.originalId === null) return true
  const key = transactionKey({ ...event, externalTransactionId: event.originalId })
  return event.kind === "refund" ? state.clearings.has(key) : state.authorizations.has(key)
}

/**
 * Applies an event whose original, if it has one, is applied, and returns the orders that follow (decisions, section
 * 5). Changes `state`, and has no other effect.
 */
export const apply = (state: State, event: StoredEvent): ReadonlyArray<Order> => {
  switch (event.kind) {
    case "authorization":
      return authorize(state, event)
    case "incremental_authorization":
      return changeAuthorization(state, event, (totals) => increment(totals, event.cents))
    case "reversal":
      return changeAuthorization(state, event, (totals) => reverse(totals, event.cents))
    case "clearing":
      return clear(state, event)
    case "refund":
      return refund(state, event)
  }
}

const authorize = (state: State, event: StoredEvent): ReadonlyArray<Order> => {
  const authorization: AuthorizationState = {
    integratorId: event.integratorId,
    userId: event.userId,
    externalTransactionId: event.externalTransactionId,
    occurredAt: event.occurredAt,
    currency: event.currency,
    mcc: event.mcc,
    attributes: state.attributes.get(eventKey(event)) ?? {},
    authorized: event.cents,
    incremented: 0n,
    reversed: 0n,
    closed: false
  }
  state.authorizations.set(transactionKey(event), authorization)
  estimate(state, undefined, authorization)
  return []
}

/** An increment or reversal in another currency has no effect. */
const changeAuthorization = (
  state: State,
  event: StoredEvent,
  change: (authorization: AuthorizationState) => ReturnType<typeof increment>
): ReadonlyArray<Order> => {
  const key = transactionKey({ ...event, externalTransactionId: event.originalId ?? "" })
  const authorization = state.authorizations.get(key)
  if (authorization === undefined || authorization.currency !== event.currency) return []
  replace(state, key, authorization, { ...authorization, ...change(authorization) })
  return []
}

const replace = (state: State, key: string, before: AuthorizationState, after: AuthorizationState): void => {
  state.authorizations.set(key, after)
  estimate(state, before, after)
}

/** Updates the estimates of an authorization's programs by the difference between its two versions. */
const estimate = (state: State, before: AuthorizationState | undefined, after: AuthorizationState): void => {
  const wasOpen = before !== undefined && !before.closed
  if (!wasOpen && after.closed) return
  const opened = (wasOpen ? -1 : 0) + (after.closed ? 0 : 1)
  for (const { metadata, version } of fitting(state, after.integratorId, after.currency, after.occurredAt)) {
    const purchase = { at: after.occurredAt, mcc: after.mcc, attributes: after.attributes }
    const now = evaluate(version, { ...purchase, cents: openCents(after) })
    if (now === undefined) continue
    const then = wasOpen ? evaluate(version, { ...purchase, cents: openCents(before) }) : undefined
    groupOf(state, {
      integratorId: after.integratorId,
      userId: after.userId,
      month: monthOf(after.occurredAt),
      programId: version.programId
    }).estimate(metadata, now.category, opened, now.raw - (then?.raw ?? 0n))
  }
}

const clear = (state: State, event: StoredEvent): ReadonlyArray<Order> => {
  const key = event.originalId === null
    ? undefined
    : transactionKey({ ...event, externalTransactionId: event.originalId })
  const authorization = key === undefined ? undefined : state.authorizations.get(key)
  if (key !== undefined && authorization !== undefined && !authorization.closed) {
    replace(state, key, authorization, { ...authorization, ...close(authorization) })
  }
  const purchaseAt = authorization?.occurredAt ?? event.occurredAt
  const attributes = authorization?.attributes ?? state.attributes.get(eventKey(event)) ?? {}
  const orders: Array<Order> = []
  const rewards: Array<ClearingReward> = []
  for (const { version } of fitting(state, event.integratorId, event.currency, purchaseAt)) {
    const evaluation = evaluate(version, { at: purchaseAt, cents: event.cents, mcc: event.mcc, attributes })
    if (evaluation === undefined) continue
    const group = groupOf(state, { ...event, month: monthOf(purchaseAt), programId: version.programId })
    const { category } = evaluation
    const used = { month: group.used(""), category: category === undefined ? 0n : group.used(category) }
    const earned = applyCaps(version, category, evaluation.raw, used)
    if (earned === 0n) continue
    group.use(category, earned)
    rewards.push({ programId: version.programId, categoryId: category, earned, amount: earned })
    orders.push({
      kind: "earn",
      reward: {
        userId: event.userId,
        externalTransactionId: event.externalTransactionId,
        programId: version.programId,
        programVersion: version.version,
        asset: version.asset,
        categoryId: category ?? null,
        purchaseAt,
        currency: event.currency,
        monthUsedBefore: used.month,
        categoryUsedBefore: used.category,
        claimableAt: event.occurredAt + version.holdingPeriodDays * dayMillis,
        earned,
        spend: event.cents
      }
    })
  }
  state.clearings.set(transactionKey(event), {
    integratorId: event.integratorId,
    userId: event.userId,
    externalTransactionId: event.externalTransactionId,
    currency: event.currency,
    cents: event.cents,
    purchaseAt,
    refundedCents: 0n,
    rewards
  })
  return orders
}

/** A refund in another currency, or of amount zero, has no effect. */
const refund = (state: State, event: StoredEvent): ReadonlyArray<Order> => {
  const externalTransactionId = event.originalId ?? ""
  const key = transactionKey({ ...event, externalTransactionId })
  const clearing = state.clearings.get(key)
  if (clearing === undefined || clearing.currency !== event.currency || event.cents === 0n) return []
  const refundedCents = clearing.refundedCents + event.cents
  const refundedSpend = refundedCents < clearing.cents ? refundedCents : clearing.cents
  const rewards = clearing.rewards.map((reward) => {
    const amount = netOfRefunds(reward.earned, clearing.cents, refundedSpend)
    if (amount !== reward.amount) {
      groupOf(state, { ...event, month: monthOf(clearing.purchaseAt), programId: reward.programId })
        .use(reward.categoryId, amount - reward.amount)
    }
    return { ...reward, amount }
  })
  state.clearings.set(key, { ...clearing, refundedCents, rewards })
  if (rewards.length === 0) return []
  const programIds = rewards.map((reward) => reward.programId)
  return [{ kind: "refund", userId: event.userId, externalTransactionId, programIds, refundedCents }]
}

/** The versions in force at an instant that pay in the currency's asset, by program id in order of code points. */
const fitting = (state: State, integratorId: string, currency: string, at: number) => {
  const asset = assetOfCurrency(currency)
  const catalog = state.programs.get(integratorId)
  return asset === undefined || catalog === undefined
    ? []
    : catalog.inForce(asset, at).map((metadata) => ({ metadata, version: catalog.compiled(metadata) }))
}
