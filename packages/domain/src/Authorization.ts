/** What is known of an authorization once it is applied: totals, in minor units of its own currency. */
export interface AuthorizationTotals {
  readonly authorized: bigint
  readonly incremented: bigint
  readonly reversed: bigint
  /** True for good after the first clearing or a void. */
  readonly closed: boolean
}

/** The open amount: authorization + increments − partial reversals, at least 0; nothing once it is closed. */
export const openCents = (totals: AuthorizationTotals): bigint => {
  const open = totals.authorized + totals.incremented - totals.reversed
  return totals.closed || open < 0n ? 0n : open
}

/** An increment adds to an open authorization. */
export const increment = (totals: AuthorizationTotals, cents: bigint): AuthorizationTotals =>
  totals.closed ? totals : { ...totals, incremented: totals.incremented + cents }

/**
 * A reversal takes from an open authorization; one of 0, or of at least the authorization's own amount, voids it,
 * increments included (decisions, section 5.6).
 */
export const reverse = (totals: AuthorizationTotals, cents: bigint): AuthorizationTotals =>
  totals.closed
    ? totals
    : cents === 0n || cents >= totals.authorized
    ? { ...totals, closed: true }
    : { ...totals, reversed: totals.reversed + cents }

/** The first clearing closes its authorization, whatever its amount. */
export const close = (totals: AuthorizationTotals): AuthorizationTotals => ({ ...totals, closed: true })
