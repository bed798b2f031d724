import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../../Database.ts"
import { perRow } from "../../Database/PlannerHints.ts"
import { columnList, int4, nullable, numeric, rowVersion } from "../../Database/Table.ts"
import type { Catalog } from "../../Programs/Catalog.ts"
import * as Tables from "../../Tables.ts"
import type { Groups, UserMonth } from "../Groups.ts"
import { groupOf, userKey } from "../State.ts"

const userMonths = Tables.capUsage.pick("integrator_id", "user_id", "month")

/**
 * The maximum number of rows of cap usage and estimates that one batch reads. A user's month has one for each program,
 * version and category, up to a million. Of the first month all are read, whatever their number.
 */
export const MaxGroupRows = Context.Reference<number>("@card-rewards/core/Processing/MaxGroupRows", {
  defaultValue: () => 20_000
})

const monthsToRead = columnList({ ord: int4(), ...userMonths.columns })

/** Cap usage with the version of its row, or the estimates of open authorizations with that of their program. */
const groupRows = columnList({
  ...monthsToRead.columns,
  ...Tables.capUsage.pick("program_id", "category_id").columns,
  amount: numeric(),
  ctid: nullable(rowVersion.ctid),
  xmin: nullable(rowVersion.xmin),
  version: nullable(int4()),
  authorizations: nullable(int4())
})

/** Map key of a user's month. */
export const monthKey = (month: UserMonth): string => `${userKey(month)}\0${month.month}`

/**
 * The months of each integrator in their order, and those of all integrators round robin: where one has months of many
 * rows, the first ones of the others are read before its second one.
 */
const roundRobin = (months: ReadonlyArray<UserMonth>): ReadonlyArray<UserMonth> => {
  const counts = new Map<string, number>()
  const rounds = months.map((month) => {
    const round = counts.get(month.integratorId) ?? 0
    counts.set(month.integratorId, round + 1)
    return { month, round }
  })
  return rounds.toSorted((a, b) => a.round - b.round).map(({ month }) => month)
}

/**
 * Reads the groups of the months that were added, {@link roundRobin}. Returns the keys of those that it has not read:
 * the events that need them stay in the queue.
 */
export const readGroups = Effect.fnUntraced(function*(groups: Groups, programs: ReadonlyMap<string, Catalog>) {
  const found = { groups, programs }
  // events of an integrator whose metadata is not read yet stay in the queue
  const known = roundRobin(groups.months().filter(({ integratorId }) => programs.has(integratorId)))
  if (known.length === 0) return new Set<string>()
  const max = yield* MaxGroupRows
  let rows = yield* selectGroups(known, max + 1)
  // the months are read in their order, and the last one of these rows in part
  let read = rows.length > max ? rows.at(-1)?.ord ?? 0 : known.length
  if (read === 0) {
    read = 1
    rows = yield* selectGroups(known.slice(0, read), null)
  }
  for (const row of rows) {
    if (row.ord >= read) break
    const { ctid, xmin } = row
    if (ctid !== null && xmin !== null) groupOf(found, row).addUsage(row.categoryId, row.amount, { ctid, xmin })
    if (row.version === null || row.authorizations === null) continue
    const version = programs.get(row.integratorId)?.version(row.programId, row.version)
    if (version === undefined) return yield* Effect.die(new Error("an estimate of a version that is not published"))
    groupOf(found, row).addEstimate({
      version,
      categoryId: row.categoryId === "" ? undefined : row.categoryId,
      authorizations: row.authorizations,
      raw: row.amount
    })
  }
  return new Set(known.slice(read).map(monthKey))
})

/** The rows of months, in the order of these, at most `limit`. */
const selectGroups = Effect.fnUntraced(function*(months: ReadonlyArray<UserMonth>, limit: number | null) {
  const sql = yield* SqlClient.SqlClient
  return groupRows.rows(yield* sql`
    SELECT ${monthsToRead.of("t")}, g.*
    FROM ${monthsToRead.unnest(months.map((month, ord) => ({ ...month, ord })))} CROSS JOIN LATERAL (
      SELECT u.program_id, u.category_id, u.earned AS amount, u.ctid, u.xmin, NULL::int4 AS version,
        NULL::int4 AS authorizations
      FROM cap_usage u WHERE ${userMonths.match("u", "t")}
      UNION ALL
      SELECT o.program_id, o.category_id, o.raw, NULL, NULL, o.version, o.authorizations
      FROM open_estimates o WHERE ${userMonths.match("o", "t")} ${perRow}
    ) g LIMIT ${value.int4(limit)}`.values)
})
