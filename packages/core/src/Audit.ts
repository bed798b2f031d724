import type { Unavailable } from "@card-rewards/domain/Errors"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { checks, type Finding } from "./Audit/Checks.ts"
import * as Rebuild from "./Audit/Rebuild.ts"
import * as Database from "./Database.ts"

export type { Finding } from "./Audit/Checks.ts"

/** Rows at fault that one check shows, at most. */
const maxFindings = 100

/** What an audit looked at and found. */
export interface AuditReport {
  readonly checks: ReadonlyArray<string>
  readonly findings: ReadonlyArray<Finding>
}

/** How far an audit is: which check, its place among all of them (from 1), and how much of it is done (0 to 1). */
export interface AuditProgress {
  readonly check: string
  readonly place: number
  readonly checks: number
  readonly part: number
}

/**
 * Proves the identities of the money rules (decisions, section 6) from the journal, the rewards and the events, and
 * what was earned from the stored spend events.
 */
export class Audit extends Context.Service<Audit, {
  /** Runs every check on one snapshot of the database; an empty list of findings means that all hold. */
  readonly run: Effect.Effect<AuditReport, Unavailable>
  /** As `run`, telling how far it is as each check begins and ends, and now and then within a long one. */
  readonly runWith: (
    onProgress: (progress: AuditProgress) => Effect.Effect<void>
  ) => Effect.Effect<AuditReport, Unavailable>
}>()("@card-rewards/core/Audit") {
  static readonly layer = Layer.effect(
    Audit,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const runWith = Effect.fn("Audit.run")((onProgress: (progress: AuditProgress) => Effect.Effect<void>) =>
        Database.withoutDeadline(sql.withTransaction(audit(onProgress))).pipe(
          Effect.provideService(SqlClient.SqlClient, sql)
        )
      )
      return Audit.of({ run: runWith(() => Effect.void), runWith })
    })
  )
}

const audit = Effect.fnUntraced(function*(onProgress: (progress: AuditProgress) => Effect.Effect<void>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`
  yield* sql`SET LOCAL statement_timeout = 0`
  // between two statements it may decode all programs, or rebuild a user with any number of events
  yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
  // whole tables are read here
  yield* sql`SET LOCAL enable_seqscan = on`
  const names = [...checks.map((check) => check.name), Rebuild.name]
  const findings: Array<Finding> = []
  const tell = (place: number, part: number) =>
    onProgress({ check: names[place] ?? "", place: place + 1, checks: names.length, part })
  for (const [place, check] of checks.entries()) {
    yield* tell(place, 0)
    const rows = yield* sql<Omit<Finding, "check">>`
      SELECT integrator_id, subject::text, expected::text, actual::text
      FROM (${sql.literal(check.sql)}) AS found LIMIT ${maxFindings}`
    findings.push(...rows.map((row) => ({ check: check.name, ...row })))
    yield* tell(place, 1)
  }
  findings.push(...yield* Rebuild.rebuild(maxFindings, (part) => tell(checks.length, part)))
  return { checks: names, findings }
})
