import * as Ledger from "@card-rewards/core/Ledger"
import { Effect } from "effect"

/** The ledger's limits while a story is run; the defaults where they are undefined. */
export interface Limits {
  /** Waiting rewards that one transaction reserves one by one; the money of the others is assigned. */
  readonly servedAtOnce?: number
  /** Due rewards that one transaction applies. */
  readonly pieceSize?: number
}

/** Provides the limits to everything that runs in this effect. */
export const withLimits = ({ pieceSize, servedAtOnce }: Limits) => <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const served = servedAtOnce === undefined
    ? effect
    : Effect.provideService(effect, Ledger.ServedAtOnce, servedAtOnce)
  return pieceSize === undefined ? served : Effect.provideService(served, Ledger.PieceSize, pieceSize)
}

/**
 * Rewards that a claim pays in its own transaction; the `reward.paid` events of more may follow (decisions, section 6).
 */
export const paidAtOnce = 1_000
