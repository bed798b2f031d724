/** A row that breaks a rule. */
export interface Finding {
  /** Name of the rule. */
  readonly check: string
  readonly integratorId: string
  /** What of the integrator the finding is about. */
  readonly subject: string
  /** What the rule requires, and what is stored. */
  readonly expected: string
  readonly actual: string
}

/** A rule, as a query for the rows that break it: `integrator_id`, `subject`, `expected`, `actual`. */
export interface Check {
  readonly name: string
  readonly sql: string
}
