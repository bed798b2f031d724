import { maxShare } from "@card-rewards/core/Batcher/FairQueue"

/** Owners that are counted before those that use nothing are forgotten. */
const manyOwners = 10_000

/**
 * A limit on what owners, integrators or clients, use at the same time: a quarter of it for each, and the whole for all
 * together.
 */
export class SharedLimit {
  private readonly max: number
  private readonly maxOfOne: number
  private used = 0
  private forgetFrom = manyOwners
  private readonly usedBy = new Map<string, number>()

  constructor(max: number) {
    this.max = max
    this.maxOfOne = max * maxShare
  }

  /** Takes `amount` for an owner, unless that is beyond the limit. What was taken must be given back. */
  take(owner: string, amount = 1): boolean {
    const own = (this.usedBy.get(owner) ?? 0) + amount
    if (own > this.maxOfOne || this.used + amount > this.max) return false
    this.usedBy.set(owner, own)
    this.used += amount
    return true
  }

  giveBack(owner: string, amount = 1): void {
    this.usedBy.set(owner, (this.usedBy.get(owner) ?? 0) - amount)
    this.used -= amount
    // not at once: a map whose entries come and go costs more than one that is large, see LinkedList
    if (this.usedBy.size > this.forgetFrom) this.forgetUnused()
  }

  private forgetUnused(): void {
    for (const [owner, own] of this.usedBy) if (own === 0) this.usedBy.delete(owner)
    this.forgetFrom = Math.max(manyOwners, 2 * this.usedBy.size)
  }
}
