import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { Fiber } from "effect"
import { OwnerShares } from "./OwnerShares.ts"
import type { RateClass } from "./RateLimit.ts"

/**
 * Requests of one class that this process handles at the same time, from their complete body to the end of their
 * answer; one integrator has a quarter, and of several cells each has its part of a half, see {@link CellShares}.
 * Further ones are refused at once, so that memory is bounded and a flood of one class, of an integrator, or for
 * databases that are away, leaves room for others.
 */
export const maxInFlight: Readonly<Record<RateClass, number>> = { ingest: 4_096, read: 2_048, manage: 1_024 }

/** Counts the requests in flight. */
export class ConcurrencyLimit {
  private readonly limits = { ingest: limitsOf("ingest"), read: limitsOf("read"), manage: limitsOf("manage") }

  /**
   * Counts a request until its fiber ends; false, and nothing is counted, where too many are in flight. `cell` is its
   * cell's name where there are several.
   */
  enter(
    rateClass: RateClass,
    { cell, integratorId }: { readonly integratorId: IntegratorId; readonly cell: string | undefined },
    request: Fiber.Fiber<unknown, unknown>
  ): boolean {
    const { cells, integrators } = this.limits[rateClass]
    if (cell !== undefined && !cells.take(cell)) return false
    if (!integrators.take(integratorId)) {
      if (cell !== undefined) cells.giveBack(cell)
      return false
    }
    request.addObserver(() => {
      integrators.giveBack(integratorId)
      if (cell !== undefined) cells.giveBack(cell)
    })
    return true
  }
}

const limitsOf = (rateClass: RateClass) => ({
  integrators: new OwnerShares(maxInFlight[rateClass]),
  cells: new CellShares(maxInFlight[rateClass])
})

/**
 * What each of several cells may use of one limit. Half of the limit is kept for the cells in equal parts, so that none
 * waits for what the others use; a worker divides its limits by the same rule. A cell is known from its first request
 * on. A request costs the same for any number of cells.
 */
class CellShares {
  private readonly max: number
  private readonly used = new Map<string, number>()
  /** Each cell's own part. */
  private kept = 0
  /** What cells use beyond their parts, of all cells. */
  private beyond = 0

  constructor(max: number) {
    this.max = max
  }

  take(cell: string): boolean {
    const own = this.used.get(cell) ?? this.add(cell)
    if (own >= this.kept) {
      if (this.beyond >= this.max - this.kept * this.used.size) return false
      this.beyond += 1
    }
    this.used.set(cell, own + 1)
    return true
  }

  giveBack(cell: string): void {
    const own = this.used.get(cell) ?? 0
    if (own > this.kept) this.beyond -= 1
    this.used.set(cell, own - 1)
  }

  private add(cell: string): number {
    this.used.set(cell, 0)
    this.kept = Math.floor(this.max / (2 * this.used.size))
    this.beyond = [...this.used.values()].reduce((sum, used) => sum + Math.max(0, used - this.kept), 0)
    return 0
  }
}
