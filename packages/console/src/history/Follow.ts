import { Effect } from "effect"
import type { Api } from "../session/Session.ts"
import { Fold } from "./Fold.ts"

const pageSize = 100
const pollMillis = 4_000

/** So many events are read without asking; a log of millions does not belong in a browser's tab. */
export const eventsAtOnce = 20_000

/** How far the event log has been read. */
export interface HistoryState {
  readonly fold: Fold
  /** `reading` until the end is reached, then `live`; `paused` at {@link eventsAtOnce}. */
  readonly status: "reading" | "live" | "paused" | "failed"
  readonly error?: unknown
}

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

  /** Asks for what is new without waiting for the next turn. */
  readonly readNow = (): void => this.#wake()

  /** Goes on after a pause, or a failure. */
  readonly readOn = (): void => {
    this.#limit = this.#state.fold.events.length + eventsAtOnce
    this.#wake()
  }

  /** Goes on from where it was, until it is interrupted: another key of the integrator sees the same events. */
  follow(api: Api): Effect.Effect<never> {
    const { fold } = this.#state
    const turn = Effect.gen({ self: this }, function* () {
      if (fold.events.length >= this.#limit) {
        this.#say({ fold, status: "paused" })
        return yield* this.#pause(Infinity)
      }
      const from = this.#after === undefined ? {} : { after: this.#after }
      const page = yield* api.events.list({ query: { limit: pageSize, ...from } })
      for (const event of page.events) fold.add(event)
      this.#after = page.next
      if (page.events.length < pageSize) {
        if (page.events.length > 0 || this.#state.status !== "live") this.#say({ fold, status: "live" })
        return yield* this.#pause(pollMillis)
      }
      this.#say({ fold, status: "reading" })
    }).pipe(
      Effect.catch((error) => {
        this.#say({ fold, status: "failed", error })
        return this.#pause(pollMillis)
      })
    )
    return Effect.forever(turn)
  }

  #pause(millis: number): Effect.Effect<void> {
    const woken = Effect.callback<void>((resume) => {
      this.#wake = () => resume(Effect.void)
    })
    return Number.isFinite(millis) ? Effect.race(woken, Effect.sleep(millis)) : woken
  }

  #say(state: HistoryState): void {
    this.#state = state
    for (const listener of this.#listeners) listener()
  }
}
