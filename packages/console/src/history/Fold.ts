import type { WebhookEvent } from "@card-rewards/domain/Event"
import type { Asset } from "@card-rewards/domain/Money"
import { type Reward, unpaid } from "@card-rewards/domain/Reward"

/** A vault's amounts of an asset at an instant, in smallest units. */
export interface VaultPoint {
  readonly at: number
  readonly held: bigint
  readonly free: bigint
  /** Reserved for rewards that are pending or claimable. */
  readonly reserved: bigint
  /** Owed to rewards that await funding. */
  readonly waiting: bigint
}

/** A deposit, withdrawal or claim. */
export type Movement = Extract<WebhookEvent, { kind: `vault.${string}_confirmed` }>

/** An event about a reward. */
export type RewardEvent = Extract<WebhookEvent, { kind: `reward.${string}` }>

export const isMovement = (event: WebhookEvent): event is Movement => event.kind.endsWith("_confirmed")
export const isRewardEvent = (event: WebhookEvent): event is RewardEvent => event.kind.startsWith("reward.")

/**
 * The state derived from the event log, updated by each event. The API has no history of the vault, but every change of
 * money is an event, so the history can be derived exactly.
 */
export class Fold {
  /** Every event so far, oldest first. */
  readonly events: Array<WebhookEvent> = []
  /** Each reward as its latest event describes it. */
  readonly rewards = new Map<string, Reward>()
  /** When each user's latest event happened. */
  readonly users = new Map<string, number>()
  readonly vault: Readonly<Record<Asset, Array<VaultPoint>>> = { USDC: [], EURe: [] }

  add(event: WebhookEvent): void {
    this.events.push(event)
    if (isRewardEvent(event)) this.#addReward(event.data, event.createdAt)
    if (isMovement(event)) this.#addMovement(event)
  }

  #addReward(reward: Reward, at: number): void {
    const key = rewardKey(reward)
    const before = this.rewards.get(key)
    this.rewards.set(key, reward)
    this.#hear(reward.userId, at)
    const { asset } = reward.amount
    this.#move(asset, at, {
      reserved: reservedBy(reward) - (before === undefined ? 0n : reservedBy(before)),
      waiting: waitingOf(reward) - (before === undefined ? 0n : waitingOf(before))
    })
  }

  #addMovement(event: Movement): void {
    if ("userId" in event.data) this.#hear(event.data.userId, event.createdAt)
    this.#move(event.data.amount.asset, event.createdAt, { held: event.data.balance.held })
  }

  #hear(userId: string, at: number): void {
    this.users.delete(userId)
    this.users.set(userId, at)
  }

  /** Events of one instant make one point: a claim's vault event stands before those of the rewards that it paid. */
  #move(asset: Asset, at: number, change: { held?: bigint; reserved?: bigint; waiting?: bigint }): void {
    const points = this.vault[asset]
    const last = points.at(-1)
    const held = change.held ?? last?.held ?? 0n
    const reserved = (last?.reserved ?? 0n) + (change.reserved ?? 0n)
    const point = {
      at,
      held,
      reserved,
      free: held - reserved,
      waiting: (last?.waiting ?? 0n) + (change.waiting ?? 0n)
    }
    if (last?.at === at) points[points.length - 1] = point
    else points.push(point)
  }
}

/** Two users may have rewards with the same id; the user makes the key unique. */
const rewardKey = (reward: Reward): string => `${reward.userId}\n${reward.id}`

const unpaidOf = (reward: Reward): bigint => unpaid({ ...reward, amount: reward.amount.amount })

const reservedBy = (reward: Reward): bigint =>
  reward.state === "Pending" || reward.state === "Claimable" ? unpaidOf(reward) : 0n

const waitingOf = (reward: Reward): bigint => (reward.state === "AwaitingFunding" ? unpaidOf(reward) : 0n)
