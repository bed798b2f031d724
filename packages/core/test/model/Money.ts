import { Indexes } from "./Indexes.ts"
import { byAge, type Earned, type ModelReward, type Movement, type State, unpaidOf } from "./Reward.ts"
import { type AssetName, assetNames, least, sum } from "./Rules.ts"
import { savepoint } from "./Savepoint.ts"

/** An event of the log: when it was stored, its kind, and `data` as in JSON. */
export interface LogEntry {
  readonly at: number
  readonly kind: string
  readonly data: unknown
}

/** The maximum number of rewards that the event of a claim lists (decisions, section 7). */
const listedRewards = 1_000

const print = (at: number): string => new Date(at).toISOString()

/**
 * The rewards and the vault of one integrator (decisions, section 6): each rule in one step of any size.
 */
export class Money {
  readonly integratorId: string
  now: number
  protected readonly rewards: Array<ModelReward> = []
  protected readonly indexes = new Indexes()
  private readonly held: Record<AssetName, bigint> = { USDC: 0n, EURe: 0n }
  private readonly free: Record<AssetName, bigint> = { USDC: 0n, EURe: 0n }
  private readonly movements = new Map<string, string>()
  readonly log: Array<LogEntry> = []
  /** The number of rewards that the last claim has paid. */
  lastClaimPaid = 0

  constructor(integratorId: string, now: number) {
    this.integratorId = integratorId
    this.now = now
  }

  // Rewards

  /** Creates a reward: reserved where free money covers it, else waiting. */
  protected earn(terms: Earned): void {
    this.applyDue([terms.user])
    const reward: ModelReward = {
      ...terms,
      number: this.rewards.length,
      createdAt: this.now,
      state: "AwaitingFunding",
      amount: terms.earned,
      paid: 0n,
      recovered: 0n,
      clawedBack: 0n,
      refundedSpend: 0n,
      revision: 0,
      updatedAt: this.now
    }
    this.rewards.push(reward)
    if (this.free[reward.asset] < reward.earned) return this.changed(reward, "reward.awaiting_funding")
    this.fund(reward)
    this.serve(reward.asset)
  }

  /** Refunds the rewards of a clearing, in order of creation: its refunds now add up to `total` (section 5.8). */
  protected refundClearing(user: string, transaction: string, total: bigint): void {
    for (const reward of this.indexes.ofClearing(user, transaction)) {
      this.refundReward(reward, least(reward.spend, total))
    }
  }

  private refundReward(reward: ModelReward, refunded: bigint): void {
    this.applyDue([reward.user])
    if (refunded === reward.refundedSpend) return
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

  /** Makes a reward Pending with free money, and Claimable at once where it is due. */
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

  /** Funds waiting rewards, first in, first out, until the first that does not fit. */
  private serve(asset: AssetName): void {
    for (const first of this.indexes.waiting(asset)) {
      if (first.amount > this.free[asset]) return
      this.fund(first)
    }
  }

  owed(user: string, asset: AssetName): bigint {
    return this.indexes.owed(user, asset)
  }

  /**
   * Makes due rewards Claimable: of the users that an operation touches, and of users who owe (section 6). This comes
   * before each movement of money and each read; spend events that move no money leave it to the next operation.
   */
  applyDue(touched: ReadonlyArray<string>): void {
    for (const reward of this.dueOf([...touched, ...this.indexes.owingUsers()]).sort(byAge)) {
      if (reward.state !== "Pending") continue
      this.mature(reward)
      this.serve(reward.asset)
    }
  }

  private dueOf(users: ReadonlyArray<string>): Array<ModelReward> {
    return [...new Set(users)].flatMap((user) =>
      assetNames.flatMap((asset) =>
        this.indexes.inState(user, asset, "Pending").filter(({ claimableAt }) => claimableAt <= this.now)
      )
    )
  }

  // The vault

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

  /** Pays an amount of claimable rewards, oldest first. */
  claim(movement: Movement & { readonly user: string }): string {
    return this.move("claim", movement, () => {
      const { asset, user } = movement
      if (movement.amount > this.claimable(user, asset)) return undefined
      this.held[asset] -= movement.amount
      let left = movement.amount
      const rewards: Array<{ readonly id: string; readonly amount: string }> = []
      for (const reward of [...this.indexes.inState(user, asset, "Claimable")].sort(byAge)) {
        const part = least(left, unpaidOf(reward))
        if (part === 0n) break
        left -= part
        reward.paid += part
        if (unpaidOf(reward) === 0n) reward.state = "Paid"
        this.changed(reward, "reward.paid")
        rewards.push({ id: this.idOf(reward), amount: `${part}` })
      }
      this.lastClaimPaid = rewards.length
      return { userId: user, rewardCount: rewards.length, rewards: rewards.slice(0, listedRewards) }
    })
  }

  claimable(user: string, asset: AssetName): bigint {
    return sum(this.indexes.inState(user, asset, "Claimable").map(unpaidOf))
  }

  protected isEnrolled(_user: string): boolean {
    return true
  }

  /** A movement of the vault's money: its event precedes the rewards' events of the same transaction. */
  private move(kind: string, movement: Movement, effect: () => object | undefined): string {
    const { amount, asset, reference, user } = movement
    const content = JSON.stringify([kind, asset, `${amount}`, user])
    const present = this.movements.get(reference)
    if (present !== undefined) return present === content ? "duplicate" : "SimulationConflict"
    if (user !== undefined && !this.isEnrolled(user)) return "UserNotEnrolled"
    if (amount === 0n) return "SimulationRefused"
    const before = this.log.length
    const undo = savepoint(this.rewards, this.indexes, this.free, this.log)
    this.applyDue(user === undefined ? [] : [user])
    const more = effect()
    if (more === undefined) {
      undo()
      return "SimulationRefused"
    }
    this.movements.set(reference, content)
    const data = {
      vaultId: "sandbox",
      reference,
      amount: { asset, amount: `${amount}` },
      balance: { held: `${this.held[asset]}`, free: `${this.free[asset]}` },
      ...more
    }
    this.log.splice(before, 0, { at: this.now, kind: `vault.${kind}_confirmed`, data })
    return "recorded"
  }

  // Reads

  private changed(reward: ModelReward, kind: string): void {
    reward.revision++
    reward.updatedAt = this.now
    this.indexes.update(reward)
    this.log.push({ at: this.now, kind, data: this.show(reward) })
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

  /** All pages of rewards, newest first. */
  list(user: string): ReadonlyArray<object> {
    return this.indexes.ofUser(user).map((one) => this.show(one)).reverse()
  }

  vault(): ReadonlyArray<object> {
    return assetNames.map((asset) => ({ asset, held: `${this.held[asset]}`, free: `${this.free[asset]}` }))
  }

  /** The fields of a balance that follow from the rewards. */
  protected sums(user: string, asset: AssetName) {
    const own = this.indexes.ofUser(user).filter((one) => one.asset === asset)
    const unpaid = (state: State) => `${sum(own.filter((one) => one.state === state).map(unpaidOf))}`
    return {
      pending: unpaid("Pending"),
      claimable: unpaid("Claimable"),
      paid: `${sum(own.map(({ paid }) => paid))}`,
      owed: `${this.owed(user, asset)}`,
      awaitingFunding: unpaid("AwaitingFunding")
    }
  }

  // Queries by which a story chooses its next operation

  /** The next instant at which a reward becomes Claimable, waiting ones included. */
  nextClaimableAt(): number | undefined {
    const later = this.rewards.map(({ claimableAt }) => claimableAt).filter((at) => at > this.now)
    return later.length === 0 ? undefined : later.reduce((first, at) => Math.min(first, at))
  }

  firstWaiting(asset: AssetName): bigint | undefined {
    const [first] = this.indexes.waiting(asset)
    return first?.amount
  }

  allWaiting(asset: AssetName): bigint {
    return sum([...this.indexes.waiting(asset)].map(({ amount }) => amount))
  }

  /** Rewards with a part that can be refunded; with `ofPaid` only those with a paid part that is not clawed back. */
  refundable(ofPaid: boolean): ReadonlyArray<ModelReward> {
    const some = this.rewards.filter((one) => one.amount > 0n && (!ofPaid || one.paid > one.clawedBack))
    return some.length > 0 || !ofPaid ? some : this.refundable(false)
  }

  freeOf(asset: AssetName): bigint {
    return this.free[asset]
  }

  /** Throws where the indexes differ from the plain list of rewards. */
  verify(): void {
    this.indexes.verify(this.rewards)
  }
}
