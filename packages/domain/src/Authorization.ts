/** The totals of an applied authorization, in minor units of its currency. */
export interface AuthorizationTotals {
  readonly authorized: bigint
  readonly incremented: bigint
  readonly reversed: bigint
  /** Whether a clearing or a void has closed it; it never opens again. */
  readonly closed: boolean
}

/** The open amount: authorization + increments − partial reversals, at least 0; and 0 once it is closed. */
export const openCents = (totals: AuthorizationTotals): bigint => {
  const open = totals.authorized + totals.incremented - totals.reversed
  return totals.closed || open < 0n ? 0n : open
}

/** Applies an increment, which adds to an open authorization. */
export const increment = (totals: AuthorizationTotals, cents: bigint): AuthorizationTotals =>
  totals.closed ? totals : { ...totals, incremented: totals.incremented + cents }

/**
 * Applies a reversal, which subtracts from an open authorization. A reversal of 0, or of at least the authorization's
 * own amount, voids it with its increments (decisions, section 5.6).
 */
export const reverse = (totals: AuthorizationTotals, cents: bigint): AuthorizationTotals =>
  totals.closed
    ? totals
    : cents === 0n || cents >= totals.authorized
    ? { ...totals, closed: true }
    : { ...totals, reversed: totals.reversed + cents }

/** Applies a clearing: the first one closes the authorization, whatever its amount. */
export const close = (totals: AuthorizationTotals): AuthorizationTotals => ({ ...totals, closed: true })
