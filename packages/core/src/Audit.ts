import type { Unavailable } from "@card-rewards/domain/Errors"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { checks } from "./Audit/Checks.ts"

/** Rows at fault that one check shows, at most. */
const maxFindings = 100

/** Something that does not hold: which rule, where, what should stand there and what does. */
export interface Finding {
  readonly check: string
  readonly integratorId: string
  readonly subject: string
  readonly expected: string
  readonly actual: string
}

/** What an audit looked at and found. */
export interface AuditReport {
  readonly checks: ReadonlyArray<string>
  readonly findings: ReadonlyArray<Finding>
}

/** Proves the identities of the money rules (decisions, section 6) from the journal, the rewards and the events. */
export class Audit extends Context.Service<Audit, {
  /** Runs every check on one snapshot of the database; an empty list of findings means that all hold. */
  readonly run: Effect.Effect<AuditReport, Unavailable>
}>()("@card-rewards/core/Audit") {
  static readonly layer = Layer.effect(
    Audit,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const run = sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`
        yield* sql`SET LOCAL statement_timeout = 0`
        const findings: Array<Finding> = []
        for (const check of checks) {
          const rows = yield* sql<Omit<Finding, "check">>`
            SELECT integrator_id, subject::text, expected::text, actual::text
            FROM (${sql.literal(check.sql)}) AS found LIMIT ${maxFindings}`
          findings.push(...rows.map((row) => ({ check: check.name, ...row })))
        }
        return { checks: checks.map((check) => check.name), findings }
      }))
      return Audit.of({ run: Database.unhurried(run).pipe(Effect.withSpan("Audit.run")) })
    })
  )
}
