import { maxShare } from "@card-rewards/core/Batcher/FairQueue"

/** A limit on what integrators use at the same time: a quarter of it for each, and the whole for all together. */
export class SharedLimit {
  private readonly max: number
  private readonly maxOfOne: number
  private used = 0
  private readonly usedBy = new Map<string, number>()

  constructor(max: number) {
    this.max = max
    this.maxOfOne = max * maxShare
  }

  /** Takes `amount` for an integrator, unless that is beyond the limit. What was taken must be given back. */
  take(integratorId: string, amount = 1): boolean {
    const own = (this.usedBy.get(integratorId) ?? 0) + amount
    if (own > this.maxOfOne || this.used + amount > this.max) return false
    this.usedBy.set(integratorId, own)
    this.used += amount
    return true
  }

  giveBack(integratorId: string, amount = 1): void {
    const own = (this.usedBy.get(integratorId) ?? 0) - amount
    if (own === 0) this.usedBy.delete(integratorId)
    else this.usedBy.set(integratorId, own)
    this.used -= amount
  }
}
