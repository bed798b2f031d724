import { close, increment, openCents, reverse } from "@card-rewards/domain/Authorization"
import { applyCaps, evaluate, nothingUsed, type Purchase, unearnedReason } from "@card-rewards/domain/Evaluation"
import { assetOfCurrency } from "@card-rewards/domain/Money"
import type { ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { netOfRefunds } from "@card-rewards/domain/Reward"
import { dayMillis, monthOf } from "@card-rewards/domain/Time"
import type { Attributes } from "@card-rewards/domain/User"
import type { EarnedReward, RefundedClearing } from "../Ledger.ts"
import type { Catalog, ProgramAt } from "../Programs/Catalog.ts"
import { attributesOf } from "../Users/AttributeHistory.ts"
import {
  authorizationOf,
  type AuthorizationState,
  catalogOf,
  clearingOf,
  type ClearingReward,
  defect,
  eventName,
  groupOf,
  type State,
  type StoredEvent,
  transactionKey
} from "./State.ts"

/**
 * A change of the vault's rewards that follows from an applied event: a reward that it earns, or the refund of a
 * clearing's rewards. The vault's book carries it out.
 */
export type VaultChange =
  | { readonly kind: "earn"; readonly reward: EarnedReward }
  | { readonly kind: "refund" } & RefundedClearing

/** Whether the event's original is applied; true where it refers to none. */
export const isReady = (state: State, event: StoredEvent): boolean =>
  event.originalId === null || authorizationOf(state, event) !== undefined || clearingOf(state, event) !== undefined

/**
 * Applies an event that {@link isReady}, and returns the changes of the vault that follow (decisions, section 5).
 * Changes `state`, and has no other effect. Throws where the original is not applied.
 */
export const apply = (state: State, event: StoredEvent): ReadonlyArray<VaultChange> => {
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

const authorize = (state: State, event: StoredEvent): ReadonlyArray<VaultChange> => {
  const authorization: AuthorizationState = {
    integratorId: event.integratorId,
    userId: event.userId,
    externalTransactionId: event.externalTransactionId,
    occurredAt: event.occurredAt,
    currency: event.currency,
    mcc: event.mcc,
    attributes: attributesAtPurchase(event),
    authorized: event.cents,
    incremented: 0n,
    reversed: 0n,
    closed: false,
    partlyApplied: null
  }
  state.authorizations.set(transactionKey(event), authorization)
  estimate(state, undefined, authorization)
  return []
}

/** An enrolled user has an attribute record at every time, and events of other users are refused. */
const attributesAtPurchase = (event: StoredEvent): Attributes =>
  typeof event.record === "bigint"
    ? attributesOf(event)
    : defect(`${eventName(event)}: its user's attributes are not read`)

/** An increment or reversal in another currency has no effect. */
const changeAuthorization = (
  state: State,
  event: StoredEvent,
  change: (authorization: AuthorizationState) => ReturnType<typeof increment>
): ReadonlyArray<VaultChange> => {
  const authorization = authorizationOf(state, event) ?? originalIsNotApplied(event)
  if (authorization.currency === event.currency) {
    replace(state, authorization, { ...authorization, ...change(authorization) })
  }
  return []
}

const originalIsNotApplied = (event: StoredEvent): never =>
  defect(`${eventName(event)}: the event ${event.originalId} that it refers to is not applied`)

const replace = (state: State, before: AuthorizationState, after: AuthorizationState): void => {
  state.authorizations.set(transactionKey(after), after)
  estimate(state, before, after)
}

/**
 * Updates the estimates of an authorization's programs by the difference between its two versions. It is part of them
 * while its open amount is above zero: a zero amount has no effect, also not on which version's caps count.
 */
const estimate = (state: State, before: AuthorizationState | undefined, after: AuthorizationState): void => {
  const [centsBefore, centsAfter] = [before === undefined ? 0n : openCents(before), openCents(after)]
  if (centsBefore === centsAfter) return
  const opened = Number(centsAfter > 0n) - Number(centsBefore > 0n)
  for (const { metadata, version } of versionsInForce(state, after.integratorId, after.currency, after.occurredAt)) {
    const purchase = { at: after.occurredAt, mcc: after.mcc, attributes: after.attributes }
    const now = evaluateIn(state, version, { ...purchase, cents: centsAfter })
    if (now === undefined) continue
    const then = centsBefore === 0n ? undefined : evaluateIn(state, version, { ...purchase, cents: centsBefore })
    groupOf(state, {
      integratorId: after.integratorId,
      userId: after.userId,
      month: monthOf(after.occurredAt),
      programId: version.programId
    }).estimate(metadata, now.category, opened, now.raw - (then?.raw ?? 0n))
  }
}

const evaluateIn = ({ evaluated }: State, version: ProgramVersion, purchase: Purchase) => {
  evaluated.campaigns += version.campaigns.length
  return evaluate(version, purchase)
}

const clear = (state: State, event: StoredEvent): ReadonlyArray<VaultChange> => {
  const authorization = event.originalId === null
    ? undefined
    : authorizationOf(state, event) ?? originalIsNotApplied(event)
  if (authorization?.closed === false) replace(state, authorization, { ...authorization, ...close(authorization) })
  // a clearing without an authorization is the purchase itself
  const purchaseAt = authorization?.occurredAt ?? event.occurredAt
  const attributes = authorization?.attributes ?? attributesAtPurchase(event)
  const changes: Array<VaultChange> = []
  const rewards: Array<ClearingReward> = []
  let unearned = state.unearned.of(event.integratorId)
  const purchase = { at: purchaseAt, cents: event.cents, mcc: event.mcc, attributes }
  const { cents, ctid, currency, externalTransactionId, integratorId, userId, xmin } = event
  const month = monthOf(purchaseAt)
  const catalog = catalogOf(state, integratorId)
  for (const { programId, version: metadata } of programsAt(catalog, event, purchaseAt)) {
    if (metadata === undefined) {
      unearned = unearned.and(programId, undefined, "noVersionInForce")
      continue
    }
    const version = catalog.compiled(metadata)
    const evaluation = evaluateIn(state, version, purchase)
    if (evaluation === undefined || evaluation.raw === 0n) {
      unearned = unearned.and(programId, version.version, unearnedReason(version, event.mcc, evaluation, nothingUsed))
      continue
    }
    const { category, raw } = evaluation
    const group = groupOf(state, { integratorId, userId, month, programId })
    const used = group.used(category)
    const earned = applyCaps(version, category, raw, used)
    if (earned === 0n) {
      unearned = unearned.and(programId, version.version, unearnedReason(version, event.mcc, evaluation, used))
      continue
    }
    group.use(category, earned)
    rewards.push({ programId, categoryId: category, earned, amount: earned })
    changes.push({
      kind: "earn",
      reward: {
        userId,
        externalTransactionId,
        programId,
        programVersion: version.version,
        asset: version.asset,
        categoryId: category ?? null,
        purchaseAt,
        currency,
        monthUsedBefore: used.month,
        categoryUsedBefore: used.category,
        claimableAt: event.occurredAt + version.holdingPeriodDays * dayMillis,
        earned,
        spend: cents
      }
    })
  }
  const identity = { integratorId, userId, externalTransactionId, ctid, xmin }
  const decided = { purchaseAt, refundedCents: 0n, rewards, unearned: unearned.toList() }
  state.clearings.set(transactionKey(event), { ...identity, currency, cents, ...decided })
  return changes
}

/** A refund in another currency, or of amount zero, has no effect. */
const refund = (state: State, event: StoredEvent): ReadonlyArray<VaultChange> => {
  const clearing = clearingOf(state, event) ?? originalIsNotApplied(event)
  if (clearing.currency !== event.currency || event.cents === 0n) return []
  const refundedCents = clearing.refundedCents + event.cents
  const rewards = clearing.rewards.map((reward) => {
    const amount = netOfRefunds(reward.earned, clearing.cents, refundedCents)
    if (amount !== reward.amount) {
      groupOf(state, { ...event, month: monthOf(clearing.purchaseAt), programId: reward.programId })
        .use(reward.categoryId, amount - reward.amount)
    }
    return { ...reward, amount }
  })
  state.clearings.set(transactionKey(clearing), { ...clearing, refundedCents, rewards })
  if (rewards.length === 0) return []
  const { externalTransactionId } = clearing
  const programIds = rewards.map((reward) => reward.programId)
  return [{ kind: "refund", userId: event.userId, externalTransactionId, programIds, refundedCents }]
}

/** The programs in which a clearing can earn; none where its amount is zero, or its currency has no asset. */
const programsAt = (catalog: Catalog, { cents, currency }: StoredEvent, at: number): ReadonlyArray<ProgramAt> => {
  const asset = assetOfCurrency(currency)
  return asset === undefined || cents === 0n ? [] : catalog.at(asset, at).programs
}

/**
 * The versions in force at an instant that pay in the currency's asset, by program id in order of code points; none for
 * a currency without an asset.
 */
const versionsInForce = (state: State, integratorId: string, currency: string, at: number) => {
  const asset = assetOfCurrency(currency)
  if (asset === undefined) return []
  const catalog = catalogOf(state, integratorId)
  return Array.from(catalog.at(asset, at).versions, (metadata) => ({ metadata, version: catalog.compiled(metadata) }))
}
