import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import * as Batcher from "./Batcher.ts"
import {
  deadlineStart,
  PoolSize,
  sharesOf,
  value,
  WaitingSince,
  withinRequestDeadline,
  withOneDeadline
} from "./Database.ts"
import { perRowSql } from "./Database/PlannerHints.ts"
import { bool, columnList, int4, literal, text, timestamptz } from "./Database/Table.ts"
import * as Ledger from "./Ledger.ts"
import * as Tables from "./Tables.ts"
import { type Applied, catchUpBatch, type DueRead } from "./UpToDate/CatchUp.ts"

/**
 * `due` where a user has due rewards; else the asset and the creation of the first waiting reward, such as `USDC12`;
 * null where none waits. Of several assets they are in a row.
 */
export type Due = string | null

/** The maximum number of reads of one batch: as many as one transaction can apply due rewards, one for each. */
const maxReads = 250

/** The maximum number of reads that wait for due rewards; one integrator has a quarter. */
const maxPending = 2_048

/** Applies what is due to users before they are read. Nearly always nothing is due, and no lock is taken. */
export class UpToDate extends Context.Service<UpToDate, {
  /**
   * Reads rows of a user, after applying what is due. Each row says whether the user has due or waiting rewards. Where
   * a reward is past its holding period, has money assigned, or may be funded by recoveries from users who owe
   * (decisions, section 6), applies these rewards and reads the rows again.
   */
  readonly read: <Row extends { readonly due: Due }, R>(
    integratorId: IntegratorId,
    userId: UserId,
    reading: Effect.Effect<ReadonlyArray<Row>, Unavailable, R>
  ) => Effect.Effect<ReadonlyArray<Row>, Unavailable, R>
  /** Applies what is due to a user, and to users whose recoveries may fund the user's rewards. */
  readonly bring: (integratorId: IntegratorId, userId: UserId) => Effect.Effect<void, Unavailable>
}>()("@card-rewards/core/UpToDate") {
  static readonly layer: Layer.Layer<UpToDate, never, SqlClient.SqlClient> = Layer.effect(
    UpToDate,
    Effect.suspend(() => make)
  )
}

/** A user to be read by a joined statement; `at` is real time in milliseconds. */
export interface UserRead {
  readonly integratorId: IntegratorId
  readonly userId: UserId
  readonly at: number
}

/** A read that has found these waiting rewards, and nothing due; see {@link Due}. */
interface WaitingRead extends UserRead {
  readonly waiting: string
}

/** The rows `t` of {@link UserRead}s. */
export const userReads = columnList({
  ...Tables.users.pick("integrator_id", "user_id").columns,
  at: timestamptz(),
  position: int4()
})

/** SQL that joins the integrator's time `i.now` to {@link userReads}. */
export const timeOfReads = literal(`CROSS JOIN LATERAL (
  SELECT t.at + clock_offset_millis * interval '1 ms' AS now
  FROM integrators i WHERE i.integrator_id = t.integrator_id ${perRowSql}
) i`)

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const isFundable = yield* Batcher.ofReads<WaitingRead, boolean>({
    name: "UpToDate.readFundable",
    keyOf: ({ integratorId }) => integratorId,
    read: (reads) => Effect.provideService(readFundable(reads), SqlClient.SqlClient, sql)
  })
  // A vault is locked by one transaction at a time: others of this process would wait for it, each with a connection.
  const { one } = yield* Batcher.make<DueRead, Applied, never>({
    name: "UpToDate.catchUp",
    keyOf: ({ integratorId }) => integratorId,
    isPerKey: true,
    maxBatch: maxReads,
    maxPending,
    startAt: Array.from({ length: sharesOf(yield* PoolSize).vaults }, () => 1),
    busy: "Due rewards of the user cannot be applied in time; send the same request again",
    run: (batch) => catchUpBatch(batch).pipe(withOneDeadline, Effect.provideService(SqlClient.SqlClient, sql))
  })
  const catchUp = (read: DueRead) =>
    one(read).pipe(
      Effect.repeat({ while: (applied) => applied === "none" }),
      Effect.map((applied) => applied === "all")
    )

  const needsMore = Effect.fnUntraced(function*(
    rows: ReadonlyArray<{ readonly due: Due }>,
    user: Pick<DueRead, "integratorId" | "userId">
  ) {
    // a balance has a row for each asset; each row of a page of rewards has the user's assets together
    const waiting = [...new Set(rows.flatMap(({ due }) => due ?? []))].toSorted().join(" ")
    if (waiting.includes("due")) return true
    return waiting !== "" && (yield* isFundable({ ...user, waiting, at: yield* Clock.currentTimeMillis }))
  })

  const read: UpToDate["Service"]["read"] = Effect.fnUntraced(function*(integratorId, userId, reading) {
    const since = yield* deadlineStart
    let rows = yield* reading
    if (rows.every(({ due }) => due === null)) return rows
    const request = { integratorId, userId, isSlow: false, waitingSince: yield* Clock.currentTimeMillis }
    return yield* Effect.gen(function*() {
      if (!(yield* needsMore(rows, request))) return rows
      yield* Ledger.applyAllDue(Effect.gen(function*() {
        const isAll = yield* catchUp(request)
        rows = yield* reading
        // others' rewards may be left, on which the user's do not depend
        return isAll || !(yield* needsMore(rows, request))
      }))
      return rows
    }).pipe(withinRequestDeadline, Effect.provideService(WaitingSince, since))
  })

  const bring = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
    const now = yield* nowOf(integratorId)
    yield* read(integratorId, userId, withinRequestDeadline(sql<{ due: Due }>`
      SELECT ${dueOf(sql, now)} AS due FROM user_balances b
      WHERE b.integrator_id = ${integratorId} AND b.user_id = ${userId}`))
  }, Effect.provideService(SqlClient.SqlClient, sql))

  return UpToDate.of({ read, bring })
})

/** SQL for the integrator's current time. */
export const nowOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  return sql`(SELECT ${value.timestamptz(yield* Clock.currentTimeMillis)} + clock_offset_millis * interval '1 ms'
    FROM integrators WHERE integrator_id = ${integratorId})`
})

/** SQL for {@link Due} of a row `b` of user_balances. */
export const dueOf = (sql: SqlClient.SqlClient, now: Statement.Fragment) =>
  sql`CASE WHEN b.due_at <= ${now} THEN 'due' WHEN b.awaiting_funding > 0 THEN b.asset || b.first_waiting END`

const fundable = columnList({ position: int4(), is_fundable: bool() })
const waitingReads = columnList({ ...userReads.columns, waiting: text() })

/**
 * Whether waiting rewards of the users are being funded: money is assigned to them, recoveries from users who owe the
 * same asset may fund them, or the first one that the read found is funded already. Users who owe and have a due or
 * assigned reward are found by their partial indexes, and sorted as the index is: where a row only has to exist,
 * PostgreSQL ignores the order, and takes any index.
 */
const readFundable = Effect.fnUntraced(function*(reads: ReadonlyArray<WaitingRead>) {
  const sql = yield* SqlClient.SqlClient
  const owing = sql`SELECT true FROM user_balances o
    WHERE o.integrator_id = b.integrator_id AND o.asset = b.asset AND o.owed > 0`
  const rows = fundable.rows(yield* sql`
    SELECT t.position, coalesce((
      SELECT string_agg(b.asset || b.first_waiting, ' ' ORDER BY b.asset) <> t.waiting OR bool_or(coalesce(
        (${owing} AND o.due_at <= i.now ORDER BY o.due_at, o.due_creation LIMIT 1),
        (
          SELECT b.first_waiting <= v.assigned_to OR (
            ${owing} AND o.first_waiting <= v.assigned_to ORDER BY o.first_waiting LIMIT 1
          ) FROM vault_balances v WHERE v.integrator_id = b.integrator_id AND v.asset = b.asset AND v.assigned > 0
        ),
        false
      )) FROM user_balances b
      WHERE b.integrator_id = t.integrator_id AND b.user_id = t.user_id AND b.awaiting_funding > 0
    ), true)
    FROM ${waitingReads.unnest(reads.map((read, position) => ({ ...read, position })))} ${timeOfReads}`.values)
  const fundableAt = new Set(rows.flatMap(({ isFundable, position }) => isFundable ? [position] : []))
  return (position: number) => fundableAt.has(position)
})
