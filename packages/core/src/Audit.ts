import type { Unavailable } from "@card-rewards/domain/Errors"
import { Cause, Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { actionChecks } from "./Audit/ActionChecks.ts"
import type { Finding } from "./Audit/Check.ts"
import { historyChecks } from "./Audit/HistoryChecks.ts"
import { moneyChecks } from "./Audit/MoneyChecks.ts"
import * as Rebuild from "./Audit/Rebuild.ts"
import { sealChecks } from "./Audit/SealChecks.ts"
import * as Database from "./Database.ts"
import { describe, isPassing, isSqlError } from "./Database/Errors.ts"
import { takeTime } from "./Database/SessionSettings.ts"
import { integratorsBeingDeleted } from "./Slots.ts"

export type { Finding } from "./Audit/Check.ts"

/** Every rule, as a query. A rule that compares two sums compares them in both directions. */
const checksAt = (now: number) => [...moneyChecks, ...historyChecks, ...actionChecks, ...sealChecks(now)]

/** The maximum number of findings of one check. */
const maxFindings = 100

/** The rules that an audit checked, and the rows that break them. */
export interface AuditReport {
  readonly checks: ReadonlyArray<string>
  readonly findings: ReadonlyArray<Finding>
}

/** Progress of an audit. */
export interface AuditProgress {
  /** Name of the current check. */
  readonly check: string
  /** Number of the current check, from 1, and how many checks there are. */
  readonly ordinal: number
  readonly checks: number
  /** How much of the current check is done, from 0 to 1. */
  readonly part: number
}

/**
 * Verifies the invariants of the money rules (decisions, section 6) from the journal, the rewards and the events, and
 * the earned amounts from the stored spend events. docs/money.md, "Proof", lists them.
 */
export class Audit extends Context.Service<Audit, {
  /** Runs every check on one snapshot of the database. Without findings all rules hold. */
  readonly run: Effect.Effect<AuditReport, Unavailable>
  /** As `run`; reports progress at the start and end of each check, and within a long one. */
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
  // between two statements, too, the audit may decode all programs, or rebuild a user with any number of events
  yield* takeTime(0)
  // the checks read whole tables
  yield* sql`SET LOCAL enable_seqscan = on`
  const checks = checksAt(yield* Clock.currentTimeMillis)
  const names = [...checks.map((check) => check.name), Rebuild.name]
  const findings: Array<Finding> = []
  const report = (index: number, part: number) =>
    onProgress({ check: names[index] ?? "", ordinal: index + 1, checks: names.length, part })
  for (const [index, check] of checks.entries()) {
    yield* report(index, 0)
    const rows = sql<Omit<Finding, "check">>`
      SELECT integrator_id, subject::text, expected::text, actual::text
      FROM (${sql.literal(check.sql)}) AS found
      -- of what is being deleted after a move a part may be gone
      WHERE (integrator_id IN (${sql.literal(integratorsBeingDeleted)})) IS NOT TRUE LIMIT ${maxFindings}`
    findings.push(...yield* alone(check.name, rows))
    yield* report(index, 1)
  }
  findings.push(...yield* alone(Rebuild.name, Rebuild.rebuild(maxFindings, (part) => report(checks.length, part))))
  return { checks: names, findings }
})

/**
 * The findings of one check. A check that cannot be finished is a finding itself: a row that cannot be read would hide
 * what the others find. Fails where the transaction cannot go on, or where the reason is no row but, for instance, a
 * full disk.
 */
const alone = Effect.fnUntraced(function*<E, R>(
  check: string,
  rows: Effect.Effect<ReadonlyArray<Omit<Finding, "check">>, E, R>
) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(rows).pipe(
    Effect.catchCause((cause) => {
      const error = Cause.squash(cause)
      const isFatal = cause.reasons.some((reason) =>
        reason._tag === "Interrupt" || (reason._tag === "Die" && isSqlError(reason.defect))
      )
      if (isFatal || (isSqlError(error) && isPassing(error))) return Effect.failCause(cause)
      const expected = "a check that can be finished"
      return Effect.succeed([{ integratorId: "", subject: "all", expected, actual: describe(error) }])
    }),
    Effect.map((found) => found.map((row): Finding => ({ check, ...row })))
  )
})
