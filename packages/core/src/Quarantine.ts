/**
 * Why an integrator is in quarantine: more rewards are due than one transaction applies (`behind`), its part of a batch
 * fails (`failing`), or another session has locked its rows (`locked`).
 */
export const reasons = ["behind", "failing", "locked"] as const
/** One of {@link reasons}. */
export type Reason = typeof reasons[number]

/** Why and since when an integrator is in quarantine. Times are real, in milliseconds. */
export interface QuarantineState {
  readonly reason: Reason
  readonly error: string
  /** Consecutive failures. */
  readonly failures: number
  readonly since: number
  /** When the next retry is due, or the lease of the present one expires. */
  readonly nextAttemptAt: number
}
