import type { EventPage } from "@card-rewards/domain/Event"
import { Effect } from "effect"
import { Fold } from "./Fold.ts"

const pageSize = 100
const pollMillis = 4_000

/** Events that are read before the user is asked; a log of millions would exhaust the tab's memory. */
export const eventsAtOnce = 20_000

/** How far the event log has been read. */
export interface HistoryState {
  readonly fold: Fold
  /** `reading` until the end is reached, then `live`; `paused` at {@link eventsAtOnce}. */
  readonly status: "reading" | "live" | "paused" | "failed"
  readonly error?: unknown
}

/** Reads at most `limit` events after the event of that number, or the first ones. */
export type ReadEvents<E> = (query: {
  readonly limit: number
  readonly after?: bigint
}) => Effect.Effect<EventPage, E>

/** Follows the event log from its beginning for as long as the tab is open. */
export class History {
  #state: HistoryState = { fold: new Fold(), status: "reading" }
  #after: bigint | undefined
  #limit = eventsAtOnce
  #wake: () => void = () => undefined
  readonly #listeners = new Set<() => void>()

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  readonly state = (): HistoryState => this.#state

  /** Reads new events now instead of at the next poll. */
  readonly readNow = (): void => this.#wake()

  /** Continues after a pause or a failure. */
  readonly resume = (): void => {
    this.#limit = this.#state.fold.events.length + eventsAtOnce
    this.#wake()
  }

  /**
   * Continues from the last event read, until it is interrupted; every key of the integrator sees the same events. A
   * page is limited in bytes too, so only an empty one is the end of the log.
   */
  follow<E>(read: ReadEvents<E>): Effect.Effect<never> {
    const { fold } = this.#state
    let wasAtEnd = false
    const readPage = Effect.gen({ self: this }, function* () {
      if (fold.events.length >= this.#limit) {
        this.#publish({ fold, status: "paused" })
        return yield* this.#pause(Infinity)
      }
      const from = this.#after === undefined ? {} : { after: this.#after }
      const page = yield* read({ limit: pageSize, ...from })
      for (const event of page.events) fold.add(event)
      this.#after = page.next
      const isAtEnd = page.events.length === 0
      // the first page after the end is what happened since the last poll; only further ones mean that it lags
      const status = isAtEnd || wasAtEnd ? "live" : "reading"
      wasAtEnd = isAtEnd
      if (!isAtEnd || this.#state.status !== "live") this.#publish({ fold, status })
      if (isAtEnd) yield* this.#pause(pollMillis)
    }).pipe(
      Effect.catch((error) => {
        this.#publish({ fold, status: "failed", error })
        return this.#pause(pollMillis)
      })
    )
    return Effect.forever(readPage)
  }

  #pause(millis: number): Effect.Effect<void> {
    const woken = Effect.callback<void>((resume) => {
      this.#wake = () => resume(Effect.void)
    })
    return Number.isFinite(millis) ? Effect.race(woken, Effect.sleep(millis)) : woken
  }

  #publish(state: HistoryState): void {
    this.#state = state
    for (const listener of this.#listeners) listener()
  }
}
