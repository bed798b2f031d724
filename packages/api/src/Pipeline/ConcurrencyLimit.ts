import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Context, type Fiber, Layer } from "effect"
import type { RateClass } from "./RateLimit.ts"
import { SharedLimit } from "./SharedLimit.ts"

/**
 * Requests of one class that this process handles at the same time, from their complete body to the end of their
 * answer; one integrator has a quarter. Further ones are refused at once, so that memory is bounded and a flood of one
 * class, or of one integrator, leaves room for the others.
 */
export const maxInFlight: Readonly<Record<RateClass, number>> = { ingest: 4_096, read: 2_048, manage: 1_024 }

/** Counts the requests in flight. */
export class ConcurrencyLimit extends Context.Service<ConcurrencyLimit, {
  /** Counts a request until its fiber ends; false, and nothing is counted, where too many are in flight. */
  readonly enter: (rateClass: RateClass, integratorId: IntegratorId, request: Fiber.Fiber<unknown, unknown>) => boolean
}>()("@card-rewards/api/ConcurrencyLimit") {
  static readonly layer: Layer.Layer<ConcurrencyLimit> = Layer.sync(ConcurrencyLimit, () => {
    const limits = {
      ingest: new SharedLimit(maxInFlight.ingest),
      read: new SharedLimit(maxInFlight.read),
      manage: new SharedLimit(maxInFlight.manage)
    }
    return ConcurrencyLimit.of({
      enter: (rateClass, integratorId, request) => {
        const limit = limits[rateClass]
        if (!limit.take(integratorId)) return false
        request.addObserver(() => limit.giveBack(integratorId))
        return true
      }
    })
  })
}
