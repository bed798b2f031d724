import * as Ledger from "@card-rewards/core/Ledger"
import { type Context, Effect } from "effect"

/** The ledger's limits while a story is run; the defaults where they are undefined. */
export interface Limits {
  /** Waiting rewards that one transaction reserves one by one; the money of the others is assigned. */
  readonly servedAtOnce?: number
  /** Due rewards that one transaction applies. */
  readonly pieceSize?: number
}

const ledger: {
  readonly ServedAtOnce: Context.Reference<number>
  readonly PieceSize?: Context.Reference<number>
} = Ledger

/**
 * Whether the ledger applies what is due in bounded pieces, in the order of decisions, section 6. Tests that a ledger
 * without pieces cannot pass are expected to fail until this is true.
 */
export const inPieces = ledger.PieceSize !== undefined

/** Provides the limits to everything that runs in this effect. */
export const withLimits = ({ pieceSize, servedAtOnce }: Limits) => <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const served = servedAtOnce === undefined
    ? effect
    : Effect.provideService(effect, ledger.ServedAtOnce, servedAtOnce)
  return pieceSize === undefined || ledger.PieceSize === undefined
    ? served
    : Effect.provideService(served, ledger.PieceSize, pieceSize)
}

/**
 * Rewards that a claim pays in its own transaction; the `reward.paid` events of more may follow (decisions, section 6).
 */
export const paidAtOnce = ({ pieceSize }: Limits): number => Math.min(1_000, pieceSize ?? 1_000)
