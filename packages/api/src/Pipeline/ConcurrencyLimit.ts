import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Context, type Fiber, Layer } from "effect"
import type { RateClass } from "./RateLimit.ts"
import { SharedLimit } from "./SharedLimit.ts"

/**
 * Requests of one class that this process handles at the same time, from their complete body to the end of their
 * answer; one integrator has a quarter, and one of several cells a half. Further ones are refused at once, so that
 * memory is bounded and a flood of one class, of an integrator, or for a database that is away, leaves room for others.
 */
export const maxInFlight: Readonly<Record<RateClass, number>> = { ingest: 4_096, read: 2_048, manage: 1_024 }

const maxShareOfCell = 1 / 2

/** Counts the requests in flight. */
export class ConcurrencyLimit extends Context.Service<ConcurrencyLimit, {
  /**
   * Counts a request until its fiber ends; false, and nothing is counted, where too many are in flight. `cell` is its
   * cell's name where there are several.
   */
  readonly enter: (
    rateClass: RateClass,
    sender: { readonly integratorId: IntegratorId; readonly cell: string | undefined },
    request: Fiber.Fiber<unknown, unknown>
  ) => boolean
}>()("@card-rewards/api/ConcurrencyLimit") {
  static readonly layer: Layer.Layer<ConcurrencyLimit> = Layer.sync(ConcurrencyLimit, () => {
    const limitsOf = (rateClass: RateClass) => ({
      integrators: new SharedLimit(maxInFlight[rateClass]),
      cells: new SharedLimit(maxInFlight[rateClass], maxShareOfCell)
    })
    const limits = { ingest: limitsOf("ingest"), read: limitsOf("read"), manage: limitsOf("manage") }
    return ConcurrencyLimit.of({
      enter: (rateClass, { cell, integratorId }, request) => {
        const { cells, integrators } = limits[rateClass]
        if (!integrators.take(integratorId)) return false
        if (cell !== undefined && !cells.take(cell)) {
          integrators.giveBack(integratorId)
          return false
        }
        request.addObserver(() => {
          integrators.giveBack(integratorId)
          if (cell !== undefined) cells.giveBack(cell)
        })
        return true
      }
    })
  })
}
