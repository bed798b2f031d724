import { JournalSeals, SealPauseMillis } from "@card-rewards/core/JournalSeals"
import { Effect, Layer } from "effect"
import * as Loop from "./Loop.ts"

export interface Options {
  /**
   * Pause after a pass over all vaults that left no backlog; 30 s when absent: entries are sealed within a minute
   * (decisions, 9).
   */
  readonly sealMillis?: number | undefined
}

const defaultMillis = 30_000

/** The fiber that seals new entries of the journals, at most half of the time: the money has the other half. */
export const layer = ({ sealMillis = defaultMillis }: Options) =>
  Layer.unwrap(Effect.gen(function*() {
    const { sealNext } = yield* JournalSeals
    // shorter than the shortest pause of the loop, so that each pass finds what the one before left out
    const step = Effect.provideService(sealNext, SealPauseMillis, Math.floor((2 * sealMillis) / 3))
    return Loop.layer("JournalSealer", step, { idleMillis: sealMillis, rest: (tookMillis) => tookMillis })
  }))
