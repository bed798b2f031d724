import { Unavailable } from "@card-rewards/domain/Errors"
import { Effect } from "effect"
import type { RateClass } from "../RateLimit.ts"

/**
 * Requests of one class that this process works on at once, from their key's check to their answer. More are refused at
 * once, before their bodies are read: so memory is bounded, and a flood of one class leaves room for the others.
 */
export const maxInWork: Readonly<Record<RateClass, number>> = { ingest: 1_024, read: 512, manage: 256 }

/** Counts the requests in work; gives what a request of a class runs in. */
export const make = () => {
  const inWork: Record<RateClass, number> = { ingest: 0, read: 0, manage: 0 }
  return (rateClass: RateClass) => <A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E | Unavailable, R> =>
    Effect.suspend((): Effect.Effect<A, E | Unavailable, R> => {
      if (inWork[rateClass] >= maxInWork[rateClass]) return Effect.fail(full())
      inWork[rateClass]++
      return Effect.ensuring(request, Effect.sync(() => inWork[rateClass]--))
    })
}

const full = () => new Unavailable({ message: "The service has more to do than it can; send the same request again" })
