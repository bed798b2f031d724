import { applyCaps, evaluate } from "@card-rewards/domain/Evaluation"
import type { ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { netOfRefunds } from "@card-rewards/domain/Reward"
import { maxSimulationKeys, type Simulation, type SimulationRequest } from "@card-rewards/domain/Simulation"
import { type Instant, type Month, monthOf, printMonth } from "@card-rewards/domain/Time"
import type { Row } from "../Database/Table.ts"
import { type attributeColumns, attributesOf } from "../Users/AttributeHistory.ts"

/** An applied clearing, and the current amount of the program's reward for it. */
export interface PurchaseRow extends Row<typeof attributeColumns> {
  readonly kind: "clearing"
  readonly userId: string
  readonly externalTransactionId: string
  readonly cents: bigint
  readonly mcc: string
  readonly purchaseAt: number
  /** Sum of its refunds, which may exceed its amount. */
  readonly refundedCents: bigint
  /** Net of refunds; null where the program paid nothing. */
  readonly paid: bigint | null
  readonly paidCategory: string | null
}

/** An applied refund of one of the purchases. */
export interface RefundRow {
  readonly kind: "refund"
  readonly userId: string
  readonly originalId: string
  readonly cents: bigint
}

/** The part of a purchase that its refunds need; kept until the last of them. */
interface Refundable {
  readonly month: Month
  readonly category: string | undefined
  readonly earned: bigint
  readonly cents: bigint
  readonly refundedInAll: bigint
  refunded: bigint
  net: bigint
}

/**
 * The most caps of months and purchases with refunds to come that a run keeps of one user. An entry takes up to 717 B,
 * most of it the id of a purchase.
 */
const maxKeptOfUser = 100_000

/** The reward of a purchase before refunds: `raw` without caps, `earned` with caps. */
interface Earned {
  readonly category: string | undefined
  readonly raw: bigint
  readonly earned: bigint
}

interface Sums {
  paid: bigint
  wouldPay: bigint
}

/**
 * Applies a candidate version to history by the rules of processing: user by user, purchases and refunds in the order
 * in which they were processed. Keeps the caps and refundable purchases of one user at a time.
 */
export class CandidateRun {
  private readonly version: ProgramVersion
  private readonly from: Instant
  private readonly to: Instant
  private transactions = 0
  private users = 0
  private gaining = 0
  private losing = 0
  private readonly total: Sums = { paid: 0n, wouldPay: 0n }
  private cappedAway = 0n
  private readonly byMonth = new Map<Month, Sums>()
  private readonly byCategory = new Map<string, Sums>()
  private readonly byTier = new Map<string, Sums>()
  private user: string | undefined
  private own: Sums | undefined
  private readonly usage = new Map<string, bigint>()
  private readonly refundable = new Map<string, Refundable>()

  constructor(version: ProgramVersion, { from, to }: Pick<SimulationRequest, "from" | "to">) {
    this.version = version
    this.from = from
    this.to = to
  }

  apply(row: PurchaseRow | RefundRow): void {
    if (row.userId !== this.user) this.nextUser(row.userId)
    if (row.kind === "refund") this.refund(row)
    else this.purchase(row)
  }

  /** What is more than a run may keep, if anything is; see {@link maxSimulationKeys} and {@link maxKeptOfUser}. */
  get excess(): string | undefined {
    const hasMore = (most: number, ...lists: ReadonlyArray<ReadonlyMap<unknown, unknown>>) =>
      lists.some(({ size }) => size > most)
    if (hasMore(maxSimulationKeys, this.byMonth, this.byCategory, this.byTier)) {
      return `there are more than ${maxSimulationKeys} months, categories or tiers`
    }
    if (hasMore(maxKeptOfUser, this.usage, this.refundable)) {
      return `a user has more than ${maxKeptOfUser} purchases that are refunded, or months and categories`
    }
    return undefined
  }

  /** Returns the result; {@link apply} may not be called afterwards. */
  finish(): Simulation {
    this.nextUser(undefined)
    const { cappedAway, from, gaining, losing, to, total, transactions, users } = this
    return {
      from,
      to,
      asset: this.version.asset,
      transactions,
      users,
      ...total,
      cappedAway,
      gaining,
      losing,
      byMonth: parts(new Map([...this.byMonth].map(([month, sums]) => [printMonth(month), sums]))),
      byCategory: parts(this.byCategory),
      byTier: parts(this.byTier)
    }
  }

  private nextUser(userId: string | undefined): void {
    if (this.own !== undefined) {
      this.users += 1
      if (this.own.wouldPay > this.own.paid) this.gaining += 1
      if (this.own.wouldPay < this.own.paid) this.losing += 1
    }
    this.user = userId
    this.own = undefined
    this.usage.clear()
    this.refundable.clear()
  }

  private purchase(row: PurchaseRow): void {
    const { category, earned, raw } = this.earn(row)
    if (row.purchaseAt < this.from || row.purchaseAt >= this.to) return
    const paid = row.paid ?? 0n
    const wouldPay = earned === 0n ? 0n : netOfRefunds(earned, row.cents, row.refundedCents)
    this.transactions += 1
    this.own ??= { paid: 0n, wouldPay: 0n }
    if (raw > 0n) this.cappedAway += netOfRefunds(raw, row.cents, row.refundedCents) - wouldPay
    for (const sums of [this.own, this.total]) add(sums, paid, wouldPay)
    if (paid === 0n && wouldPay === 0n) return
    add(part(this.byMonth, monthOf(row.purchaseAt)), paid, wouldPay)
    add(part(this.byTier, row.tier ?? ""), paid, wouldPay)
    if (paid > 0n) add(part(this.byCategory, row.paidCategory ?? ""), paid, 0n)
    if (wouldPay > 0n) add(part(this.byCategory, category ?? ""), 0n, wouldPay)
  }

  /** Evaluates a purchase under the candidate, and counts it against the caps. */
  private earn(row: PurchaseRow): Earned {
    const evaluation = evaluate(this.version, {
      at: row.purchaseAt,
      cents: row.cents,
      mcc: row.mcc,
      attributes: attributesOf(row)
    })
    if (evaluation === undefined) return { category: undefined, raw: 0n, earned: 0n }
    const { category, raw } = evaluation
    const month = monthOf(row.purchaseAt)
    const used = {
      month: this.used(month, undefined),
      category: category === undefined ? 0n : this.used(month, category)
    }
    const earned = applyCaps(this.version, category, raw, used)
    if (earned > 0n) {
      this.use(month, category, earned)
      if (row.refundedCents > 0n) {
        const { cents, refundedCents: refundedInAll } = row
        this.refundable.set(row.externalTransactionId, {
          month,
          category,
          earned,
          cents,
          refundedInAll,
          refunded: 0n,
          net: earned
        })
      }
    }
    return { category, raw, earned }
  }

  /** Applies a refund: it returns cap room to purchases processed later. */
  private refund({ cents, originalId }: RefundRow): void {
    const purchase = this.refundable.get(originalId)
    if (purchase === undefined) return
    purchase.refunded += cents
    const net = netOfRefunds(purchase.earned, purchase.cents, purchase.refunded)
    this.use(purchase.month, purchase.category, net - purchase.net)
    purchase.net = net
    if (purchase.refunded >= purchase.refundedInAll) this.refundable.delete(originalId)
  }

  private used(month: Month, category: string | undefined): bigint {
    return this.usage.get(usageKey(month, category)) ?? 0n
  }

  private use(month: Month, category: string | undefined, amount: bigint): void {
    for (const key of category === undefined ? [undefined] : [undefined, category]) {
      this.usage.set(usageKey(month, key), this.used(month, key) + amount)
    }
  }
}

const usageKey = (month: Month, category: string | undefined): string =>
  category === undefined ? `${month}` : `${month} ${category}`

const part = <Key>(sums: Map<Key, Sums>, key: Key): Sums => {
  const known = sums.get(key) ?? { paid: 0n, wouldPay: 0n }
  sums.set(key, known)
  return known
}

const add = (sums: Sums, paid: bigint, wouldPay: bigint): void => {
  sums.paid += paid
  sums.wouldPay += wouldPay
}

const parts = (sums: ReadonlyMap<string, Sums>): Simulation["byMonth"] =>
  // UTF-8 has the order of code points; its bytes are compared several times faster than strings
  [...sums].map(([key, own]) => ({ bytes: Buffer.from(key), part: { key, ...own } }))
    .sort((left, right) => Buffer.compare(left.bytes, right.bytes)).map(({ part }) => part)
