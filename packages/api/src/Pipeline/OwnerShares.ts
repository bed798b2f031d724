import { maxShare } from "@card-rewards/core/Batcher/FairQueue"
import { KeyedStates } from "@card-rewards/core/Batcher/KeyedStates"

/**
 * A limit on what owners, such as integrators or clients, use at the same time: a quarter of it for each, and the whole
 * for all together.
 */
export class OwnerShares {
  private readonly max: number
  private readonly maxOfOne: number
  private used = 0
  private readonly owners = new KeyedStates(() => ({ used: 0 }), ({ used }) => used === 0)

  constructor(max: number) {
    this.max = max
    this.maxOfOne = max * maxShare
  }

  /** Takes `amount` for an owner, unless that is beyond the limit. What was taken must be given back. */
  take(owner: string, amount = 1): boolean {
    const own = this.owners.of(owner)
    if (own.used + amount > this.maxOfOne || this.used + amount > this.max) return false
    own.used += amount
    this.used += amount
    return true
  }

  giveBack(owner: string, amount = 1): void {
    this.owners.of(owner).used -= amount
    this.used -= amount
  }
}
