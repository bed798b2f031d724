import * as Ledger from "@card-rewards/core/Ledger"
import { Effect } from "effect"

/** The ledger's limits while a story is run; the defaults where they are undefined. */
export interface Limits {
  /** Waiting rewards that one transaction reserves one by one; the money of the others is assigned. */
  readonly servedAtOnce?: number
  /** Due rewards that one transaction applies. */
  readonly pieceSize?: number
  /**
   * Rewards that a claim pays, and its event lists, in its own transaction; the `reward.paid` events of more may follow
   * (decisions, section 6).
   */
  readonly paidAtOnce?: number
}

/** The default of {@link Limits.paidAtOnce}. */
export const defaultPaidAtOnce = 1_000

/** Provides the limits to an effect. */
export const withLimits = ({ paidAtOnce, pieceSize, servedAtOnce }: Limits) =>
<A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const served = servedAtOnce === undefined
    ? effect
    : Effect.provideService(effect, Ledger.ServedAtOnce, servedAtOnce)
  const paid = paidAtOnce === undefined ? served : Effect.provideService(served, Ledger.PaidAtOnce, paidAtOnce)
  return pieceSize === undefined ? paid : Effect.provideService(paid, Ledger.PieceSize, pieceSize)
}
