import type { IntegratorId, VaultId } from "@card-rewards/domain/Ids"
import type { Account } from "@card-rewards/domain/Journal"
import { type Asset, assets } from "@card-rewards/domain/Money"
import type { RewardChange, RewardMoney, RewardState } from "@card-rewards/domain/Reward"
import { addEntry, type DayEnd } from "@card-rewards/domain/Statement"
import { dayMillis, dayOf } from "@card-rewards/domain/Time"
import {
  byDuePosition,
  isFallen,
  type LowFunds,
  noAccounts,
  type OpenedVault,
  type Payout,
  type UserAccounts,
  type VaultAccounts
} from "./Accounts.ts"
import { encodeReward, presentReward, type RewardRow, rewardKey } from "./RewardRow.ts"
import type { Entry, PendingEvent, VaultOperation } from "./Pending.ts"
import { WaitingQueue } from "./WaitingQueue.ts"
import { WaitingChanges, WaitingScan } from "./WaitingScan.ts"

/** What the book adds to a new reward: above all that it is one of its own integrator. */
type AddedByBook = "integratorId" | "kind" | "creation" | "createdAt" | "updatedAt" | "revision"

type NewReward = Omit<RewardRow, keyof RewardMoney | AddedByBook>

/**
 * One integrator's money in memory while its vault is locked: the rows that a transaction read, and its changes.
 * Every change goes through {@link Book.change} or {@link Book.move}, which keep balances, journal and events
 * consistent with each other.
 */
export class Book {
  readonly integratorId: IntegratorId
  readonly vaultId: VaultId
  /** The integrator's clock: what is due by then is applied. */
  readonly now: number
  /** The time of what is recorded: now, but not before the vault's last day, where another clock was ahead. */
  readonly recordedAt: number
  readonly offsetMillis: number
  readonly hasPayouts: boolean
  readonly stored: OpenedVault["stored"]
  readonly rewards = new Map<string, RewardRow>()
  readonly created = new Set<string>()
  readonly changed = new Set<string>()
  readonly entries: Array<Entry> = []
  readonly events: Array<PendingEvent> = []
  readonly vault: Readonly<Record<Asset, VaultAccounts>>
  private readonly lowFunds: ReadonlyMap<Asset, LowFunds>
  /** The accounts that were read or changed, in that order. */
  readonly accounts: Array<UserAccounts> = []
  readonly changedAssets = new Set<Asset>()
  /** The ends of the days that this transaction is the first one after, of the assets that it has moved. */
  readonly dayEnds: Array<DayEnd & { readonly asset: Asset }> = []
  readonly waitingChanges = { USDC: new WaitingChanges(), EURe: new WaitingChanges() }
  readonly scans = { USDC: new WaitingScan(), EURe: new WaitingScan() }
  /** Unfinished claims of the users that were read. */
  readonly payouts = new Map<UserAccounts, Payout>()
  readonly changedPayouts = new Set<UserAccounts>()
  operation: VaultOperation | undefined
  creations: bigint
  /** Waiting rewards that this transaction reserved from free money. */
  served = 0
  /** Due, assigned or claimed rewards that this transaction may still apply. */
  budget: number
  /** Creation up to which this transaction has reserved the assigned rewards of {@link usersInScope}. */
  readonly reservedTo: Record<Asset, bigint> = { USDC: 0n, EURe: 0n }
  /** Whether the budget ran out before all due rewards were applied; nothing else may change free money then. */
  isBehind = false
  /**
   * Of a book that is behind: whether the due rewards of touched users are applied, except of users who owe and of
   * those with an unfinished claim.
   */
  isOnlyOwingBehind = false
  /** Real time at which background work on the vault is next due, in milliseconds. */
  workAt: number | undefined
  /** Whether `workAt` has to be computed again when the book is written. */
  isWorkOutdated = false
  private readonly users: Readonly<Record<Asset, Map<string, UserAccounts>>> = { USDC: new Map(), EURe: new Map() }
  /** Users whose money the operation touches. */
  private readonly touched = new Set<string>()
  /** Users whose accounts were read in both assets. */
  private readonly read = new Set<string>()
  private readonly queues: Record<Asset, WaitingQueue> = { USDC: new WaitingQueue(), EURe: new WaitingQueue() }

  constructor(opened: OpenedVault) {
    this.integratorId = opened.integratorId
    this.vaultId = opened.vaultId
    this.now = opened.now
    this.recordedAt = Math.max(opened.now, ...assets.map((asset) => (opened.vault[asset].day ?? 0) * dayMillis))
    this.offsetMillis = opened.offsetMillis
    this.creations = opened.creations
    this.stored = opened.stored
    this.workAt = opened.workAt
    this.hasPayouts = opened.hasPayouts
    this.vault = opened.vault
    this.lowFunds = opened.lowFunds
    this.budget = opened.budget
  }

  /** Adds a row that was read, unless the book has the reward; returns the book's version of it. */
  addReward(row: RewardRow): RewardRow {
    const key = rewardKey(row)
    const known = this.rewards.get(key)
    if (known !== undefined) return known
    this.rewards.set(key, row)
    return row
  }

  /** Adds a user's accounts that were read; where the book has them, only the version of their row. */
  addUser(accounts: UserAccounts): void {
    const known = this.users[accounts.asset].get(accounts.userId)
    if (known === undefined) this.addAccounts(accounts)
    else known.stored = accounts.stored
  }

  private addAccounts(accounts: UserAccounts): UserAccounts {
    this.users[accounts.asset].set(accounts.userId, accounts)
    this.accounts.push(accounts)
    return accounts
  }

  /** Marks a user as touched by the operation. */
  touch(userId: string): void {
    this.touched.add(userId)
  }

  /** Records that a user's accounts were read in both assets. */
  markRead(userId: string): void {
    this.read.add(userId)
  }

  /** Adds an unfinished claim that was read, unless the book has it; returns the book's version of it. */
  addPayout(payout: Payout): Payout {
    const accounts = this.user(payout.userId, payout.asset)
    const known = this.payouts.get(accounts)
    if (known === undefined) this.payouts.set(accounts, payout)
    return known ?? payout
  }

  /** Whether a claim of the user is unfinished. It pays the rewards that it counted, so that none may mature before. */
  isClaiming(userId: string, asset: Asset): boolean {
    const accounts = this.users[asset].get(userId)
    return accounts !== undefined && (this.payouts.get(accounts)?.amount ?? 0n) > 0n
  }

  /** Whether a user's accounts were read. */
  hasUser(userId: string, asset: Asset): boolean {
    return this.read.has(userId) || this.users[asset].has(userId)
  }

  /** The touched users, and users who owe, whose accounts were read: an operation applies their due rewards first. */
  usersInScope(): ReadonlyArray<UserAccounts> {
    return this.accounts.filter(({ owed, userId }) => owed > 0n || this.touched.has(userId))
  }

  /** The number of {@link accounts} whose first rewards are outdated. */
  get outdatedFirsts(): number {
    return this.accounts.reduce((count, { areFirstsOutdated }) => areFirstsOutdated ? count + 1 : count, 0)
  }

  /** The rewards of an asset that wait for free money. */
  waiting(asset: Asset): WaitingQueue {
    return this.queues[asset]
  }

  /** A user's accounts; zeros for a user without rewards. */
  user(userId: string, asset: Asset): UserAccounts {
    return this.users[asset].get(userId) ?? this.addAccounts(noAccounts(userId, asset))
  }

  /** Adds a new reward of a clearing, decided by `change`. */
  create(row: NewReward, change: RewardChange): RewardRow {
    this.creations += 1n
    const { creations: creation, integratorId, recordedAt: at } = this
    const added = { integratorId, kind: "clearing", creation, createdAt: at, updatedAt: at, revision: 1 }
    const created: RewardRow = { ...row, ...change.money, ...added }
    const key = rewardKey(created)
    this.created.add(key)
    this.record(key, undefined, created, change, this.operation?.reference)
    return created
  }

  /** The rewards of an asset that this transaction created, in order of creation. */
  createdRows(asset: Asset): ReadonlyArray<RewardRow> {
    return this.rowsOf(this.created, asset)
  }

  /** The stored rewards of an asset that this transaction has changed. */
  changedRows(asset: Asset): ReadonlyArray<RewardRow> {
    return this.rowsOf(this.changed, asset)
  }

  private rowsOf(keys: ReadonlySet<string>, asset: Asset): ReadonlyArray<RewardRow> {
    return [...keys].map((key) => presentReward(this.rewards, key)).filter((row) => row.asset === asset)
  }

  /** Applies a decided change to a reward. Its journal entries carry the operation's reference, if there is one. */
  change(row: RewardRow, change: RewardChange, reference: string | undefined = this.operation?.reference): RewardRow {
    const next = { ...row, ...change.money, updatedAt: this.recordedAt, revision: row.revision + 1 }
    const key = rewardKey(next)
    if (!this.created.has(key)) this.changed.add(key)
    this.record(key, row, next, change, reference)
    return next
  }

  private record(
    key: string,
    before: RewardRow | undefined,
    row: RewardRow,
    change: RewardChange,
    reference: string | undefined
  ): void {
    this.rewards.set(key, row)
    const { asset, creation, userId } = row
    for (const move of change.moves) {
      this.move({ ...move, asset, userId, reward: creation, reference })
    }
    this.events.push({ kind: change.event, data: JSON.stringify(encodeReward(row)), reward: creation })
    this.trackFirsts(before?.state, row)
    this.trackWaiting(before, row)
  }

  /** Updates the user's first pending and waiting reward, and when the vault's next work is due. */
  private trackFirsts(before: RewardState | undefined, row: RewardRow): void {
    if (row.state === before) return
    const accounts = this.user(row.userId, row.asset)
    const { firstPending, firstWaiting } = accounts
    const dueAt = row.claimableAt - this.offsetMillis
    if (row.state === "Pending") {
      if (firstPending === undefined || byDuePosition(row, firstPending) < 0) accounts.firstPending = row
      // a clock that is thousands of years ahead leaves it before PostgreSQL's first time
      const workAt = Math.max(dueAt, this.now - this.offsetMillis)
      if (this.workAt === undefined || workAt < this.workAt) this.workAt = workAt
    } else if (before === "Pending") {
      if (firstPending === undefined || byDuePosition(row, firstPending) <= 0) accounts.areFirstsOutdated = true
      if (this.workAt === undefined || dueAt <= this.workAt) this.isWorkOutdated = true
    }
    if (row.state === "AwaitingFunding") accounts.firstWaiting ??= row.creation
    else if (before === "AwaitingFunding" && (firstWaiting ?? row.creation) >= row.creation) {
      accounts.areFirstsOutdated = true
    }
  }

  private trackWaiting(before: RewardRow | undefined, { amount, asset, creation, state }: RewardRow): void {
    const was = before?.state === "AwaitingFunding" ? before.amount : 0n
    const is = state === "AwaitingFunding" ? amount : 0n
    if (is !== was) this.waitingChanges[asset].add(creation, is - was)
  }

  /** The assets whose free money this transaction has let fall below its threshold, with that. */
  fallen(): ReadonlyArray<readonly [asset: Asset, threshold: bigint]> {
    return [...this.lowFunds].flatMap(([asset, low]) =>
      isFallen(low, this.vault[asset].free) ? [[asset, low.threshold] as const] : [])
  }

  /** Sets the rest of a user's claim that rewards are still to be paid with; 0 ends the payout. */
  changePayout(payout: Payout): void {
    const accounts = this.user(payout.userId, payout.asset)
    this.payouts.set(accounts, payout)
    this.changedPayouts.add(accounts)
    this.isWorkOutdated = true
  }

  /** Moves money between accounts. Throws where an account of the vault or of a user would become negative. */
  move(entry: Entry): void {
    if (!this.changedAssets.has(entry.asset)) this.beginChange(entry.asset)
    this.add(entry, entry.from, -entry.amount)
    this.add(entry, entry.to, entry.amount)
    const vault = this.vault[entry.asset]
    if (entry.from === "world" || entry.from === "paid") vault.held += entry.amount
    if (entry.to === "world" || entry.to === "paid") vault.held -= entry.amount
    addEntry(vault, entry)
    if (entry.from === "assigned" || entry.to === "assigned") this.isWorkOutdated = true
    this.entries.push(entry)
  }

  private beginChange(asset: Asset): void {
    const vault = this.vault[asset]
    const { day } = vault
    if (day !== null && day < dayOf(this.recordedAt)) this.dayEnds.push({ ...vault, asset, day })
    this.changedAssets.add(asset)
  }

  private add(entry: Entry, account: Account, amount: bigint): void {
    if (account === "world" || account === "promised" || account === "clawedBack") return
    if (account === "free" || account === "assigned") {
      const vault = this.vault[entry.asset]
      vault[account] += amount
      if (vault[account] < 0n) throw new Error(`${account} money of a vault would become negative`)
      return
    }
    if (entry.userId === undefined) throw new Error(`an entry on ${account} names no user`)
    const accounts = this.user(entry.userId, entry.asset)
    accounts[account] += amount
    if (accounts[account] < 0n) throw new Error(`${account} of a user would become negative`)
    accounts.isChanged = true
  }
}

