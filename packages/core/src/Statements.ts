import { InvalidRequest, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { type DayEnd, maxStatementDays, type Statement, statementOf } from "@card-rewards/domain/Statement"
import { dayOf, parseDate } from "@card-rewards/domain/Time"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { transaction, value, withinRequestDeadline, withOneDeadline } from "./Database.ts"
import { lockVault } from "./Locks.ts"
import { integratorTime } from "./SandboxClock.ts"
import * as Tables from "./Tables.ts"

/** Which days of which asset a statement shows; the dates are `YYYY-MM-DD`, in UTC. */
export interface StatementQuery {
  readonly asset: Asset
  readonly from: string
  readonly to: string
}

/** Statements of the vault (decisions, section 9). */
export class Statements extends Context.Service<Statements, {
  /**
   * The movements of the days, up to the integrator's present one. Reads one row for each of them, however many
   * movements there were. What it returns of a day that has ended never changes: the first statement that shows the
   * day, or the first movement of a later one, ends it for good. Fails where the query has no day, or more than {@link
   * maxStatementDays}.
   */
  readonly get: (
    integratorId: IntegratorId,
    query: StatementQuery
  ) => Effect.Effect<Statement, InvalidRequest | Unavailable>
}>()("@card-rewards/core/Statements") {
  static readonly layer = Layer.effect(
    Statements,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      return Statements.of({
        get: Effect.fn("Statements.get")(function*(integratorId, { asset, from, to }) {
          const range = { asset, from: parseDate(from), to: parseDate(to) }
          yield* requireDays(range.to - range.from + 1)
          const { ends, today } = yield* read(integratorId, range)
          return statementOf({ ...range, today }, ends)
        }, Effect.provideService(SqlClient.SqlClient, sql))
      })
    })
  )
}

const requireDays = (days: number) =>
  days < 1
    ? Effect.fail(new InvalidRequest({ part: "query", message: "to: expected a date that is not before `from`" }))
    : days > maxStatementDays
    ? Effect.fail(new InvalidRequest({ part: "query", message: `to: expected at most ${maxStatementDays} days` }))
    : Effect.void

interface Range {
  readonly asset: Asset
  readonly from: number
  readonly to: number
}

const read = Effect.fnUntraced(function*(integratorId: IntegratorId, range: Range) {
  let found = yield* withinRequestDeadline(readEnds(integratorId, range))
  // a second time where a day ends meanwhile
  for (let times = 0; found.mustEnd && times < 2; times++) {
    yield* endDay(integratorId, range.asset)
    found = yield* withinRequestDeadline(readEnds(integratorId, range))
  }
  return found
}, withOneDeadline)

/** The ends of the days of a range, the last one before it, and the present state as the end of the last day. */
const readEnds = Effect.fnUntraced(function*(integratorId: IntegratorId, { asset, from, to }: Range) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* integratorTime(integratorId)
  const days = (condition: string, order: "ASC" | "DESC", limit: number, day: number) =>
    sql`(SELECT ${Tables.vaultDays.of("d")}, false AS is_present FROM vault_days d
      WHERE d.integrator_id = ${integratorId} AND d.asset = ${asset}
        AND d.day ${sql.literal(condition)} ${value.int4(day)}
      ORDER BY d.day ${sql.literal(order)} LIMIT ${value.int4(limit)})`
  // one statement, and so one snapshot
  const rows = yield* sql<DayEnd & { readonly isPresent: boolean }>`
    ${days("<", "DESC", 1, from)} UNION ALL ${days(">=", "ASC", to - from + 1, from)}
    UNION ALL SELECT ${Tables.vaultDays.of("b")}, true FROM vault_balances b
      WHERE b.integrator_id = ${integratorId} AND b.asset = ${asset} AND b.day IS NOT NULL
    ORDER BY day`
  const present = rows.find(({ isPresent }) => isPresent)
  const today = Math.max(dayOf(now), present?.day ?? 0)
  // what began to move money on an earlier day may not be committed yet
  const mustEnd = present === undefined || (present.day < today && present.day <= to)
  return { ends: rows, today, mustEnd }
})

/** Ends the vault's last day. What moves its money holds the lock, and reads the time after taking it. */
const endDay = (integratorId: IntegratorId, asset: Asset) =>
  transaction(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* lockVault(integratorId)
    const today = value.int4(dayOf(yield* integratorTime(integratorId)))
    const ofVault = sql`integrator_id = ${integratorId} AND asset = ${asset}`
    yield* sql`INSERT INTO vault_days (${Tables.vaultDays.names})
      SELECT ${Tables.vaultDays.of("b")} FROM vault_balances b WHERE ${ofVault} AND day < ${today}`
    yield* sql`UPDATE vault_balances SET day = ${today} WHERE ${ofVault} AND (day IS NULL OR day < ${today})`
  }))
