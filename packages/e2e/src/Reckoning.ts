import { type Ledger, type Spend } from "./Load.ts"
import { type Asset, groceries, integratorId, multiplierOf, rates, unitsPerCent } from "./World.ts"

/** The expected state of a reward. */
export interface ExpectedReward {
  readonly userId: string
  readonly asset: Asset
  readonly earned: bigint
  /** Net of refunds. */
  readonly amount: bigint
  readonly refundedSpend: bigint
}

/** What the acknowledged events result in; none of it depends on the order in which they were applied. */
export interface Reckoning {
  /** By the reward's id. */
  readonly rewards: ReadonlyMap<string, ExpectedReward>
  /** From open authorizations, by user and asset. */
  readonly expected: ReadonlyMap<string, bigint>
}

export const userAsset = (userId: string, asset: Asset): string => `${userId}/${asset}`

const assetOf = (spend: Spend): Asset => spend.amount.currency === "USD" ? "USDC" : "EURe"
const centsOf = (spend: Spend): bigint => BigInt(spend.amount.amount)

/** The formula of docs/money.md (decisions, section 5.5) without bonuses and caps, with one floor at the end. */
const rawOf = (spend: Spend, cents: bigint): bigint => {
  const asset = assetOf(spend)
  const rate = spend.merchant.mcc === groceries ? rates[asset].groceries : rates[asset].other
  return cents * unitsPerCent[asset] * BigInt(rate * multiplierOf(spend.userId)) / 10n ** 8n
}

export const reckon = (ledger: Ledger): Reckoning => {
  const spends = [...ledger.spends.values()]
  const dependents = Map.groupBy(
    spends.filter((spend) => (spend.authorizationId ?? spend.originalTransactionId) !== undefined),
    (spend) => `${spend.userId}\0${spend.authorizationId ?? spend.originalTransactionId}`
  )
  const of = (spend: Spend) => dependents.get(`${spend.userId}\0${spend.externalTransactionId}`) ?? []
  const rewards = new Map<string, ExpectedReward>()
  const expected = new Map<string, bigint>()
  for (const spend of spends) {
    if (spend.kind === "clearing") {
      const { programId } = rates[assetOf(spend)]
      rewards.set(
        `rw:${integratorId}:${spend.userId}:clearing:${spend.externalTransactionId}:${programId}`,
        rewardOf(spend, of(spend))
      )
    } else if (spend.kind === "authorization") {
      const key = userAsset(spend.userId, assetOf(spend))
      expected.set(key, (expected.get(key) ?? 0n) + rawOf(spend, openCents(spend, of(spend))))
    }
  }
  return { rewards, expected }
}

const rewardOf = (clearing: Spend, refunds: ReadonlyArray<Spend>): ExpectedReward => {
  const cents = centsOf(clearing)
  const refunded = refunds.reduce((sum, refund) => sum + centsOf(refund), 0n)
  const refundedSpend = refunded < cents ? refunded : cents
  const earned = rawOf(clearing, cents)
  return {
    userId: clearing.userId,
    asset: assetOf(clearing),
    earned,
    amount: earned * (cents - refundedSpend) / cents,
    refundedSpend
  }
}

/** The open amount: 0 after a clearing, and after a reversal of zero or of at least the authorization's own amount. */
const openCents = (authorization: Spend, about: ReadonlyArray<Spend>): bigint => {
  const own = centsOf(authorization)
  let open = own
  for (const spend of about) {
    const cents = centsOf(spend)
    if (spend.kind === "clearing") return 0n
    if (spend.kind === "incremental_authorization") open += cents
    if (spend.kind !== "reversal") continue
    if (cents === 0n || cents >= own) return 0n
    open -= cents
  }
  return open > 0n ? open : 0n
}

/** The expected money of a vault. */
export const held = (ledger: Ledger, asset: Asset): bigint =>
  ledger.money.filter((move) => move.asset === asset)
    .reduce((sum, { amount, kind }) => kind === "deposit" ? sum + amount : sum - amount, 0n)

/** The expected payments of a user. */
export const paid = (ledger: Ledger, userId: string, asset: Asset): bigint =>
  ledger.money.filter((move) => move.kind === "claim" && move.asset === asset && move.userId === userId)
    .reduce((sum, { amount }) => sum + amount, 0n)
