import type { IntegratorId, VaultId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import type { Account, Move, Reward, RewardChange, RewardMoney, RewardState } from "@card-rewards/domain/Reward"
import { printRewardId } from "@card-rewards/domain/Reward"
import { printTimestamp } from "@card-rewards/domain/Time"

/** A row of `rewards`. Times are milliseconds, amounts smallest units, spend minor units. */
export interface RewardRow extends RewardMoney {
  readonly integratorId: IntegratorId
  readonly userId: string
  readonly kind: string
  readonly externalTransactionId: string
  readonly programId: string
  readonly programVersion: number
  /** Order of creation in the vault, from 1. */
  readonly creation: bigint
  readonly asset: Asset
  readonly categoryId: string | null
  readonly purchaseAt: number
  readonly currency: string
  readonly monthUsedBefore: bigint
  readonly categoryUsedBefore: bigint
  readonly claimableAt: number
  readonly createdAt: number
  readonly updatedAt: number
  readonly revision: number
}

/** What of a reward is told to the integrator. */
export type ShownReward = Omit<RewardRow, "categoryId" | "purchaseAt" | "monthUsedBefore" | "categoryUsedBefore">

/** The accounts that are kept for each user and asset. */
export type UserAccounts = Record<"awaitingFunding" | "pending" | "claimable" | "paid" | "owed", bigint>

/** A vault's money in one asset; waiting rewards created up to `assignedTo` will be reserved with `assigned`. */
export interface VaultAccounts {
  held: bigint
  free: bigint
  assigned: bigint
  assignedTo: bigint
}

/** A journal entry that is not written yet. */
export interface Entry extends Move {
  readonly asset: Asset
  readonly userId: string | undefined
  readonly reward: bigint | undefined
  readonly reference: string | undefined
}

/** An event that is not written yet; `data` is JSON already. */
export interface PendingEvent {
  readonly kind: string
  readonly data: string
  readonly reward: bigint | undefined
}

/** What an operation on the vault records beside its money. */
export interface VaultOperation {
  readonly kind: "deposit" | "withdrawal" | "claim"
  readonly reference: string
  readonly asset: Asset
  readonly amount: bigint
  readonly userId?: string
  readonly rewards?: Array<{ readonly id: string; readonly amount: string }>
}

/**
 * One integrator's money, in memory, while its vault is locked: everything that a transaction touches, and what it
 * has changed. Every change goes through {@link Book.change} or {@link Book.move}, which keep balances, journal and
 * events in step.
 */
export class Book {
  readonly integratorId: IntegratorId
  readonly vaultId: VaultId
  /** The integrator's clock, read under the lock; milliseconds. */
  readonly now: number
  readonly rewards = new Map<string, RewardRow>()
  readonly created = new Set<string>()
  readonly changed = new Set<string>()
  readonly entries: Array<Entry> = []
  readonly events: Array<PendingEvent> = []
  readonly vault: Record<Asset, VaultAccounts>
  readonly changedUsers = new Set<string>()
  /** The users and assets whose accounts were read. */
  readonly storedUsers = new Set<string>()
  readonly changedAssets = new Set<Asset>()
  operation: VaultOperation | undefined
  creations: bigint
  /** Waiting rewards that this transaction reserved from free money. */
  served = 0
  private readonly users = new Map<string, UserAccounts>()
  private readonly queues: Record<Asset, WaitingQueue> = { USDC: new WaitingQueue(), EURe: new WaitingQueue() }

  constructor(options: {
    readonly integratorId: IntegratorId
    readonly vaultId: VaultId
    readonly now: number
    readonly creations: bigint
    readonly vault: Book["vault"]
  }) {
    this.integratorId = options.integratorId
    this.vaultId = options.vaultId
    this.now = options.now
    this.creations = options.creations
    this.vault = options.vault
  }

  /** Takes a row that was read, unless this transaction has it already; answers the one that counts. */
  meet(row: RewardRow): RewardRow {
    const key = rewardKey(row)
    const known = this.rewards.get(key)
    if (known !== undefined) return known
    this.rewards.set(key, row)
    return row
  }

  /** Takes a user's accounts that were read, unless they are here already. */
  meetUser(userId: string, asset: Asset, accounts: UserAccounts): void {
    const key = userKey(userId, asset)
    this.storedUsers.add(key)
    if (!this.users.has(key)) this.users.set(key, accounts)
  }

  /** Whether a user's accounts are here. */
  hasUser(userId: string, asset: Asset): boolean {
    return this.users.has(userKey(userId, asset))
  }

  /** The users whose accounts are here. */
  userIds(): ReadonlyArray<string> {
    return [...new Set([...this.users.keys()].map((key) => splitUserKey(key).userId))]
  }

  /** The users and assets that have pending rewards. */
  pendingUsers(): ReadonlyArray<ReturnType<typeof splitUserKey>> {
    return [...this.users].flatMap(([key, accounts]) => accounts.pending > 0n ? [splitUserKey(key)] : [])
  }

  /** The rewards of an asset that wait for free money. */
  waiting(asset: Asset): WaitingQueue {
    return this.queues[asset]
  }

  /** A user's accounts; zeros for one who never had a reward. */
  user(userId: string, asset: Asset): UserAccounts {
    const key = userKey(userId, asset)
    const known = this.users.get(key)
    if (known !== undefined) return known
    const accounts = { awaitingFunding: 0n, pending: 0n, claimable: 0n, paid: 0n, owed: 0n }
    this.users.set(key, accounts)
    return accounts
  }

  /** Adds a new reward, decided by `change`. */
  create(row: Omit<RewardRow, keyof RewardMoney | "creation" | "createdAt" | "updatedAt" | "revision">, change: RewardChange): RewardRow {
    this.creations += 1n
    const created: RewardRow = {
      ...row,
      ...change.money,
      creation: this.creations,
      createdAt: this.now,
      updatedAt: this.now,
      revision: 1
    }
    const key = rewardKey(created)
    this.created.add(key)
    this.record(key, created, change)
    return created
  }

  /** The rewards of an asset that this transaction created, in that order. */
  createdRows(asset: Asset): ReadonlyArray<RewardRow> {
    return this.rowsOf(this.created, asset)
  }

  /** The stored rewards of an asset that this transaction has changed. */
  changedRows(asset: Asset): ReadonlyArray<RewardRow> {
    return this.rowsOf(this.changed, asset)
  }

  private rowsOf(keys: ReadonlySet<string>, asset: Asset): ReadonlyArray<RewardRow> {
    return [...keys].flatMap((key) => this.rewards.get(key) ?? []).filter((row) => row.asset === asset)
  }

  /** Changes a reward as decided. */
  change(row: RewardRow, change: RewardChange): RewardRow {
    const next = { ...row, ...change.money, updatedAt: this.now, revision: row.revision + 1 }
    const key = rewardKey(next)
    if (!this.created.has(key)) this.changed.add(key)
    this.record(key, next, change)
    return next
  }

  private record(key: string, row: RewardRow, change: RewardChange): void {
    this.rewards.set(key, row)
    const { asset, userId, creation } = row
    for (const move of change.moves) {
      this.move({ ...move, asset, userId, reward: creation, reference: this.operation?.reference })
    }
    this.events.push({ kind: change.event, data: JSON.stringify(encodeReward(row)), reward: creation })
  }

  /** Moves money between accounts. No account of the vault or of a user can become negative. */
  move(entry: Entry): void {
    this.add(entry, entry.from, -entry.amount)
    this.add(entry, entry.to, entry.amount)
    const vault = this.vault[entry.asset]
    if (entry.from === "world") vault.held += entry.amount
    if (entry.to === "world" || entry.to === "paid") vault.held -= entry.amount
    this.changedAssets.add(entry.asset)
    this.entries.push(entry)
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
    this.changedUsers.add(userKey(entry.userId, entry.asset))
  }
}

/** Rewards that wait, in order of creation: read from the database page by page, then those of this transaction. */
export class WaitingQueue {
  /** Creation of the last one read. */
  readUpTo = 0n
  /** Whether there are no more to read. */
  readAll = false
  private stored: Array<string> = []
  private readonly added: Array<string> = []

  /** The first one's key; undefined where the next page must be read first, or where none waits. */
  first(): string | undefined {
    return this.stored[0] ?? (this.readAll ? this.added[0] : undefined)
  }

  /** Takes the first one out: it waits no longer. */
  shift(): void {
    if (this.stored.shift() === undefined) this.added.shift()
  }

  /** Takes a page that was read, the longest waiting first. */
  read(rows: ReadonlyArray<RewardRow>, pageSize: number): void {
    this.stored = rows.map(rewardKey)
    this.readUpTo = rows.at(-1)?.creation ?? this.readUpTo
    this.readAll = rows.length < pageSize
  }

  /** Adds a reward of this transaction. */
  push(row: RewardRow): void {
    this.added.push(rewardKey(row))
  }
}

/** A reward's key within its integrator. Ids hold no NUL, so different identities never share one. */
export const rewardKey = (
  reward: Pick<RewardRow, "userId" | "kind" | "externalTransactionId" | "programId">
): string => `${reward.userId}\0${reward.kind}\0${reward.externalTransactionId}\0${reward.programId}`

/** A user and asset within an integrator; the asset comes first, so that the key can be read back. */
export const userKey = (userId: string, asset: Asset): string => `${asset}\0${userId}`

/** Reads a {@link userKey} back. */
export const splitUserKey = (key: string): { readonly asset: Asset; readonly userId: string } => ({
  asset: key.startsWith("USDC") ? "USDC" : "EURe",
  userId: key.slice(5)
})

/** A reward as the list and the events show it. */
export const encodeReward = (row: ShownReward): typeof Reward.Encoded => ({
  id: printRewardId(row),
  userId: row.userId,
  programId: row.programId,
  programVersion: row.programVersion,
  transaction: { kind: spendKind(row.kind), externalTransactionId: row.externalTransactionId },
  state: row.state satisfies RewardState,
  amount: { asset: row.asset, amount: row.amount.toString() },
  spend: { currency: row.currency, amount: row.spend.toString() },
  claimableAt: printTimestamp(row.claimableAt),
  createdAt: printTimestamp(row.createdAt),
  updatedAt: printTimestamp(row.updatedAt),
  revision: row.revision,
  earned: row.earned.toString(),
  paid: row.paid.toString(),
  recovered: row.recovered.toString(),
  clawedBack: row.clawedBack.toString(),
  refundedSpend: row.refundedSpend.toString()
})

/** Rewards come from clearings alone. */
const spendKind = (kind: string): "clearing" => {
  if (kind === "clearing") return kind
  throw new Error(`a reward of a ${kind}`)
}
