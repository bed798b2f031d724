import { Unavailable } from "@card-rewards/domain/Errors"
import { Context, Effect, Layer } from "effect"
import type { RateClass } from "../RateLimit.ts"

/**
 * Requests of one class that this process works on at once, from their key's check to their answer. More are refused at
 * once, before their bodies are read: so memory is bounded, and a flood of one class leaves room for the others.
 */
export const maxInWork: Readonly<Record<RateClass, number>> = { ingest: 1_024, read: 512, manage: 256 }

/** Counts the requests in work. */
export class InWork extends Context.Service<InWork, {
  /** Counts one more, unless there are too many; who is counted must leave. */
  readonly enter: (rateClass: RateClass) => boolean
  readonly leave: (rateClass: RateClass) => void
}>()("@card-rewards/api/InWork") {
  static readonly layer: Layer.Layer<InWork> = Layer.sync(InWork, () => {
    const inWork: Record<RateClass, number> = { ingest: 0, read: 0, manage: 0 }
    return InWork.of({
      enter: (rateClass) => inWork[rateClass] < maxInWork[rateClass] && inWork[rateClass]++ >= 0,
      leave: (rateClass) => void inWork[rateClass]--
    })
  })
}

/** A request while it is counted; 503 where there are too many. */
export const within = ({ enter, leave }: InWork["Service"], rateClass: RateClass) =>
<A, E, R>(request: Effect.Effect<A, E, R>): Effect.Effect<A, E | Unavailable, R> =>
  Effect.suspend((): Effect.Effect<A, E | Unavailable, R> =>
    enter(rateClass) ? Effect.ensuring(request, Effect.sync(() => leave(rateClass))) : Effect.fail(full())
  )

const full = () => new Unavailable({ message: "The service has more to do than it can; send the same request again" })
