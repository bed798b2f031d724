import {
  assetNames,
  assetOf,
  categoryCap,
  evaluate,
  least,
  monthName,
  newest,
  notNegative,
  sum,
  versionInForce
} from "./Rules.ts"
import type { AssetName, Attributes, Definition, Version } from "./Rules.ts"

/**
 * The money rules of one integrator (contract; decisions, sections 1, 4, 5 and 6), kept in plain lists that are
 * searched anew each time. Slow, and easy to compare with the text.
 */

export type Kind = "authorization" | "incremental_authorization" | "clearing" | "reversal" | "refund"

/** A spend event as an integrator means it; `original` is its authorizationId or originalTransactionId. */
export interface Spend {
  readonly user: string
  readonly kind: Kind
  readonly transaction: string
  readonly currency: string
  readonly cents: bigint
  readonly mcc: string
  readonly occurredAt: number
  readonly original?: string
}

export interface StoredSpend extends Spend {
  readonly arrival: number
}

export type State = "AwaitingFunding" | "Pending" | "Claimable" | "Paid" | "Refunded"

interface ModelReward {
  /** Order of creation. */
  readonly number: number
  readonly user: string
  readonly program: string
  readonly version: number
  readonly transaction: string
  readonly asset: AssetName
  readonly currency: string
  readonly spend: bigint
  readonly earned: bigint
  readonly claimableAt: number
  readonly createdAt: number
  readonly month: string
  readonly category: string | undefined
  state: State
  amount: bigint
  paid: bigint
  recovered: bigint
  clawedBack: bigint
  refundedSpend: bigint
  revision: number
  updatedAt: number
}

interface ModelAuthorization {
  readonly spend: StoredSpend
  readonly changes: Array<StoredSpend>
  closed: boolean
}

interface AttributeRecord {
  readonly storedAt: number
  readonly arrival: number
  readonly attributes: Attributes
}

/** An event of the log: its kind and `data` as JSON says them. */
export interface LogEntry {
  readonly kind: string
  readonly data: unknown
}

export interface BalanceSix {
  readonly asset: AssetName
  readonly expected: string
  readonly pending: string
  readonly claimable: string
  readonly paid: string
  readonly owed: string
  readonly awaitingFunding: string
}

export interface Movement {
  readonly reference: string
  readonly asset: AssetName
  readonly amount: bigint
  readonly user?: string
}

const print = (at: number): string => new Date(at).toISOString()
const keyOf = (user: string, kind: Kind, transaction: string): string => JSON.stringify([user, kind, transaction])

export const originalKey = (spend: Spend): string | undefined => {
  if (spend.original === undefined) return undefined
  return keyOf(spend.user, spend.kind === "refund" ? "clearing" : "authorization", spend.original)
}

const unpaidOf = (reward: ModelReward): bigint =>
  reward.amount - reward.paid - reward.recovered + reward.clawedBack

export class Model {
  readonly integratorId: string
  now: number
  private arrivals = 0
  readonly users = new Map<string, Array<AttributeRecord>>()
  /** The service's own choice, which the order among users follows. */
  readonly lanes = new Map<string, number>()
  readonly programs = new Map<string, Array<Version>>()
  readonly stored = new Map<string, StoredSpend>()
  private queue: Array<StoredSpend> = []
  private waiting: Array<StoredSpend> = []
  private readonly applied: Array<StoredSpend> = []
  private readonly authorizations: Array<ModelAuthorization> = []
  private readonly rewards: Array<ModelReward> = []
  private readonly held: Record<AssetName, bigint> = { USDC: 0n, EURe: 0n }
  private readonly free: Record<AssetName, bigint> = { USDC: 0n, EURe: 0n }
  private readonly movements = new Map<string, string>()
  readonly log: Array<LogEntry> = []

  constructor(integratorId: string, now: number) {
    this.integratorId = integratorId
    this.now = now
  }

  // Users and programs

  put(user: string, attributes: Attributes): string {
    const records = this.users.get(user)
    const record = { storedAt: this.now, arrival: ++this.arrivals, attributes }
    if (records === undefined) {
      this.users.set(user, [record])
      return "enrolled"
    }
    const last = records.at(-1)?.attributes
    if (last?.tier === attributes.tier && last?.country === attributes.country && last?.segment === attributes.segment) {
      return "unchanged"
    }
    records.push(record)
    return "updated"
  }

  publish(program: string, version: number, definition: Definition): string {
    const versions = this.programs.get(program) ?? []
    const present = versions.find((one) => one.version === version)
    if (present !== undefined) {
      return JSON.stringify(present.definition) === JSON.stringify(definition) ? "duplicate" : "ProgramVersionConflict"
    }
    if (Date.parse(definition.effectiveFrom) < this.now + 5 * 60_000) return "ProgramRefused"
    if (versions.some((one) => one.definition.asset !== definition.asset)) return "ProgramRefused"
    this.programs.set(program, [...versions, { version, definition }])
    return "published"
  }

  /** Section 5.3. */
  private attributesAt(giver: StoredSpend): Attributes {
    const records = this.users.get(giver.user) ?? []
    const seen = records.filter((record) => record.storedAt <= giver.occurredAt && record.arrival < giver.arrival)
    return (seen.at(-1) ?? records[0])?.attributes ?? {}
  }

  // Spend events

  submit(spend: Spend): string {
    const key = keyOf(spend.user, spend.kind, spend.transaction)
    const present = this.stored.get(key)
    if (present !== undefined) return same(present, spend) ? "duplicate" : "SpendEventConflict"
    if (spend.occurredAt > this.now + 60_000) return "EventInFuture"
    if (!this.users.has(spend.user)) return "UserNotEnrolled"
    const stored = { ...spend, arrival: ++this.arrivals }
    this.stored.set(key, stored)
    this.queue.push(stored)
    return "accepted"
  }

  /** Who has stored events that are not processed yet. */
  get unprocessed(): string | undefined {
    return this.queue[0]?.user
  }

  /** Users are processed lane by lane, those of one lane in order of arrival. */
  process(): void {
    const laneOf = ({ user }: StoredSpend) => this.lanes.get(user) ?? 0
    const events = this.queue.splice(0).sort((left, right) =>
      laneOf(left) - laneOf(right) || left.arrival - right.arrival)
    for (const event of events) {
      if (!this.isReady(event)) {
        this.waiting.push(event)
        continue
      }
      this.applyWithDependents(event)
    }
  }

  private isReady(event: StoredSpend): boolean {
    const original = originalKey(event)
    return original === undefined ||
      this.applied.some(({ kind, transaction, user }) => keyOf(user, kind, transaction) === original)
  }

  /** Section 5.7. */
  private applyWithDependents(event: StoredSpend): void {
    this.apply(event)
    this.applied.push(event)
    const key = keyOf(event.user, event.kind, event.transaction)
    const dependents = this.waiting.filter((one) => originalKey(one) === key)
      .sort((left, right) => left.occurredAt - right.occurredAt || left.arrival - right.arrival)
    this.waiting = this.waiting.filter((one) => originalKey(one) !== key)
    for (const dependent of dependents) this.applyWithDependents(dependent)
  }

  private apply(event: StoredSpend): void {
    if (event.kind === "authorization") this.authorizations.push({ spend: event, changes: [], closed: false })
    else if (event.kind === "clearing") this.clear(event)
    else if (event.kind === "refund") this.refund(event)
    else this.change(event)
  }

  private authorizationOf(event: StoredSpend): ModelAuthorization | undefined {
    return this.authorizations.find(({ spend }) => spend.user === event.user && spend.transaction === event.original)
  }

  /** An increment or a reversal (section 5.6). */
  private change(event: StoredSpend): void {
    const authorization = this.authorizationOf(event)
    if (authorization === undefined) throw new Error("a change was applied before its authorization")
    if (event.currency !== authorization.spend.currency) return
    const voids = event.kind === "reversal" && (event.cents === 0n || event.cents >= authorization.spend.cents)
    if (voids) authorization.closed = true
    else authorization.changes.push(event)
  }

  private clear(clearing: StoredSpend): void {
    const authorization = clearing.original === undefined ? undefined : this.authorizationOf(clearing)
    if (authorization !== undefined) authorization.closed = true
    const giver = authorization?.spend ?? clearing
    const at = giver.occurredAt
    const attributes = this.attributesAt(giver)
    for (const program of [...this.programs.keys()].sort()) {
      const version = versionInForce(this.programs.get(program) ?? [], at)
      if (version === undefined || version.definition.asset !== assetOf(clearing.currency)) continue
      const found = evaluate(version.definition, { cents: clearing.cents, mcc: clearing.mcc, at, attributes })
      if (found === undefined) continue
      const { category, raw } = found
      const month = monthName(at)
      const { monthRoom, categoryRoom } = this.room(clearing.user, program, month, version.definition)
      const earned = notNegative(least(raw, monthRoom, categoryRoom(category) ?? raw))
      if (earned > 0n) this.create(clearing, { program, version, month, category, earned })
    }
  }

  /** What caps leave; below zero where a newer version's cap is below what was earned. */
  private room(user: string, program: string, month: string, definition: Definition) {
    const earlier = this.rewards.filter((one) => one.user === user && one.program === program && one.month === month)
    const used = sum(earlier.map(({ amount }) => amount))
    return {
      monthRoom: BigInt(definition.caps.perMonth) - used,
      categoryRoom: (category: string | undefined): bigint | undefined => {
        const cap = categoryCap(definition, category)
        if (cap === undefined) return undefined
        return cap - sum(earlier.filter((one) => one.category === category).map(({ amount }) => amount))
      }
    }
  }

  private create(clearing: StoredSpend, terms: {
    readonly program: string
    readonly version: Version
    readonly month: string
    readonly category: string | undefined
    readonly earned: bigint
  }): void {
    const { category, earned, month, program, version } = terms
    const asset = version.definition.asset
    this.settle([clearing.user])
    const reward: ModelReward = {
      number: this.rewards.length,
      user: clearing.user,
      program,
      version: version.version,
      transaction: clearing.transaction,
      asset,
      currency: clearing.currency,
      spend: clearing.cents,
      earned,
      claimableAt: clearing.occurredAt + version.definition.holdingPeriodDays * 24 * 3_600_000,
      createdAt: this.now,
      month,
      category,
      state: "AwaitingFunding",
      amount: earned,
      paid: 0n,
      recovered: 0n,
      clawedBack: 0n,
      refundedSpend: 0n,
      revision: 0,
      updatedAt: this.now
    }
    this.rewards.push(reward)
    if (this.free[asset] < earned) return this.changed(reward, "reward.awaiting_funding")
    this.fund(reward)
    this.serve(asset)
  }

  /** Section 5.8, for every reward of the clearing in order of creation. */
  private refund(event: StoredSpend): void {
    const clearing = this.applied.find((one) =>
      one.kind === "clearing" && one.user === event.user && one.transaction === event.original)
    if (clearing === undefined || clearing.currency !== event.currency) return
    const earlier = this.applied.filter((one) =>
      one.kind === "refund" && one.user === event.user && one.original === event.original &&
      one.currency === event.currency)
    const total = sum([...earlier, event].map(({ cents }) => cents))
    for (const reward of this.rewards) {
      if (reward.user !== event.user || reward.transaction !== event.original) continue
      this.refundReward(reward, least(reward.spend, total))
    }
  }

  private refundReward(reward: ModelReward, refunded: bigint): void {
    if (refunded === reward.refundedSpend) return
    this.settle([reward.user])
    const amount = reward.earned * (reward.spend - refunded) / reward.spend
    const reduction = reward.amount - amount
    const fromUnpaid = least(reduction, unpaidOf(reward))
    const wasWaiting = reward.state === "AwaitingFunding"
    reward.refundedSpend = refunded
    reward.amount = amount
    reward.clawedBack += reduction - fromUnpaid
    if (!wasWaiting) this.free[reward.asset] += fromUnpaid
    if (amount === 0n) reward.state = "Refunded"
    else if (!wasWaiting && unpaidOf(reward) === 0n) reward.state = "Paid"
    this.changed(reward, "reward.refunded")
    this.serve(reward.asset)
  }

  // Money

  /** Pending from free money, and Claimable at once where that is due. */
  private fund(reward: ModelReward): void {
    this.free[reward.asset] -= unpaidOf(reward)
    reward.state = "Pending"
    this.changed(reward, "reward.pending")
    if (reward.claimableAt <= this.now) this.mature(reward)
  }

  private mature(reward: ModelReward): void {
    const recovery = least(this.owed(reward.user, reward.asset), reward.amount)
    reward.recovered += recovery
    this.free[reward.asset] += recovery
    reward.state = unpaidOf(reward) === 0n ? "Paid" : "Claimable"
    this.changed(reward, reward.state === "Paid" ? "reward.recovered" : "reward.claimable")
  }

  /** Waiting rewards, first in, first out, until the first that does not fit. */
  private serve(asset: AssetName): void {
    for (;;) {
      const first = this.rewards.find((one) => one.asset === asset && one.state === "AwaitingFunding")
      if (first === undefined || first.amount > this.free[asset]) return
      this.fund(first)
    }
  }

  owed(user: string, asset: AssetName): bigint {
    const own = this.rewards.filter((one) => one.user === user && one.asset === asset)
    return sum(own.map((one) => one.clawedBack - one.recovered))
  }

  /**
   * Makes due rewards Claimable: of the users that an operation touches, and of users who owe (section 6). Done before
   * money moves and before a read; spend events that move no money leave it to the next one.
   */
  settle(touched: ReadonlyArray<string>): void {
    const owing = [...this.users.keys()].filter((user) => assetNames.some((asset) => this.owed(user, asset) > 0n))
    const due = this.rewards.filter((one) =>
      one.state === "Pending" && one.claimableAt <= this.now && (touched.includes(one.user) || owing.includes(one.user)))
    for (const reward of due.sort(byAge)) {
      if (reward.state !== "Pending") continue
      this.mature(reward)
      this.serve(reward.asset)
    }
  }

  settleAll(): void {
    this.settle([...this.users.keys()])
  }

  deposit(movement: Movement): string {
    return this.move("deposit", movement, () => {
      this.held[movement.asset] += movement.amount
      this.free[movement.asset] += movement.amount
      this.serve(movement.asset)
      return {}
    })
  }

  withdraw(movement: Movement): string {
    return this.move("withdrawal", movement, () => {
      if (movement.amount > this.free[movement.asset]) return undefined
      this.held[movement.asset] -= movement.amount
      this.free[movement.asset] -= movement.amount
      return {}
    })
  }

  claim(movement: Movement & { readonly user: string }): string {
    return this.move("claim", movement, () => {
      const { asset, user } = movement
      if (movement.amount > this.claimable(user, asset)) return undefined
      this.held[asset] -= movement.amount
      let left = movement.amount
      const rewards: Array<{ readonly id: string; readonly amount: string }> = []
      const own = this.rewards.filter((one) => one.user === user && one.asset === asset && one.state === "Claimable")
      for (const reward of own.sort(byAge)) {
        const part = least(left, unpaidOf(reward))
        if (part === 0n) continue
        left -= part
        reward.paid += part
        if (unpaidOf(reward) === 0n) reward.state = "Paid"
        this.changed(reward, "reward.paid")
        rewards.push({ id: this.idOf(reward), amount: `${part}` })
      }
      return { userId: user, rewardCount: rewards.length, rewards: rewards.slice(0, 1_000) }
    })
  }

  claimable(user: string, asset: AssetName): bigint {
    const due = this.rewards.filter((one) => one.user === user && one.asset === asset && one.state === "Claimable")
    return sum(due.map(unpaidOf))
  }

  /** A movement of vault money: its event stands before the rewards' events of the same transaction. */
  private move(kind: string, movement: Movement, effect: () => object | undefined): string {
    const { amount, asset, reference, user } = movement
    const content = JSON.stringify([kind, asset, `${amount}`, user])
    const present = this.movements.get(reference)
    if (present !== undefined) return present === content ? "duplicate" : "SimulationConflict"
    if (user !== undefined && !this.users.has(user)) return "UserNotEnrolled"
    if (amount === 0n) return "SimulationRefused"
    const before = this.log.length
    this.settle(user === undefined ? [] : [user])
    const more = effect()
    if (more === undefined) return "SimulationRefused"
    this.movements.set(reference, content)
    const data = {
      vaultId: "sandbox",
      reference,
      amount: { asset, amount: `${amount}` },
      balance: { held: `${this.held[asset]}`, free: `${this.free[asset]}` },
      ...more
    }
    this.log.splice(before, 0, { kind: `vault.${kind}_confirmed`, data })
    return "recorded"
  }

  // What is seen

  private changed(reward: ModelReward, kind: string): void {
    reward.revision++
    reward.updatedAt = this.now
    this.log.push({ kind, data: this.show(reward) })
  }

  private idOf({ program, transaction, user }: ModelReward): string {
    return `rw:${this.integratorId}:${user}:clearing:${transaction}:${program}`
  }

  private show(reward: ModelReward): object {
    return {
      id: this.idOf(reward),
      userId: reward.user,
      programId: reward.program,
      programVersion: reward.version,
      transaction: { kind: "clearing", externalTransactionId: reward.transaction },
      state: reward.state,
      amount: { asset: reward.asset, amount: `${reward.amount}` },
      spend: { currency: reward.currency, amount: `${reward.spend}` },
      earned: `${reward.earned}`,
      paid: `${reward.paid}`,
      recovered: `${reward.recovered}`,
      clawedBack: `${reward.clawedBack}`,
      refundedSpend: `${reward.refundedSpend}`,
      claimableAt: print(reward.claimableAt),
      createdAt: print(reward.createdAt),
      updatedAt: print(reward.updatedAt),
      revision: reward.revision
    }
  }

  /** Newest first, all pages. */
  list(user: string): ReadonlyArray<object> {
    return this.rewards.filter((one) => one.user === user).reverse().map((one) => this.show(one))
  }

  vault(): ReadonlyArray<object> {
    return assetNames.map((asset) => ({ asset, held: `${this.held[asset]}`, free: `${this.free[asset]}` }))
  }

  balance(user: string): ReadonlyArray<BalanceSix> {
    return assetNames.map((asset) => {
      const own = this.rewards.filter((one) => one.user === user && one.asset === asset)
      const unpaid = (state: State) => `${sum(own.filter((one) => one.state === state).map(unpaidOf))}`
      return {
        asset,
        expected: `${this.expected(user, asset)}`,
        pending: unpaid("Pending"),
        claimable: unpaid("Claimable"),
        paid: `${sum(own.map(({ paid }) => paid))}`,
        owed: `${this.owed(user, asset)}`,
        awaitingFunding: unpaid("AwaitingFunding")
      }
    })
  }

  /** Section 5.6: the estimates of open authorizations, capped per program and month by the newest version involved. */
  private expected(user: string, asset: AssetName): bigint {
    let total = 0n
    for (const [program, versions] of this.programs) {
      const estimates = this.authorizations.flatMap((authorization) => {
        const { spend } = authorization
        if (authorization.closed || spend.user !== user || assetOf(spend.currency) !== asset) return []
        const version = versionInForce(versions, spend.occurredAt)
        if (version === undefined || version.definition.asset !== asset) return []
        const { mcc, occurredAt: at } = spend
        const found = evaluate(version.definition, {
          cents: openCents(authorization),
          mcc,
          at,
          attributes: this.attributesAt(spend)
        })
        return found === undefined ? [] : [{ version, month: monthName(at), ...found }]
      })
      for (const month of new Set(estimates.map((one) => one.month))) {
        const inMonth = estimates.filter((one) => one.month === month)
        const definition = newest(inMonth.map(({ version }) => version))?.definition
        if (definition === undefined) continue
        const { categoryRoom, monthRoom } = this.room(user, program, month, definition)
        const parts = [...new Set(inMonth.map(({ category }) => category))].map((category) => {
          const raw = sum(inMonth.filter((one) => one.category === category).map((one) => one.raw))
          return notNegative(least(raw, categoryRoom(category) ?? raw))
        })
        total += notNegative(least(monthRoom, sum(parts)))
      }
    }
    return total
  }

  /** The next instant at which a reward becomes Claimable, waiting ones included. */
  nextClaimableAt(): number | undefined {
    return this.rewards.map(({ claimableAt }) => claimableAt).filter((at) => at > this.now).sort((a, b) => a - b)[0]
  }

  firstWaiting(asset: AssetName): bigint | undefined {
    return this.rewards.find((one) => one.asset === asset && one.state === "AwaitingFunding")?.amount
  }

  freeOf(asset: AssetName): bigint {
    return this.free[asset]
  }
}

const openCents = ({ changes, spend }: ModelAuthorization): bigint =>
  notNegative(spend.cents + sum(changes.map(({ cents, kind }) => kind === "reversal" ? -cents : cents)))

const byAge = (left: ModelReward, right: ModelReward): number =>
  left.claimableAt - right.claimableAt || left.number - right.number

const same = (left: Spend, right: Spend): boolean =>
  left.currency === right.currency && left.cents === right.cents && left.mcc === right.mcc &&
  left.occurredAt === right.occurredAt && left.original === right.original
