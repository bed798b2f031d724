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
 * version and category, up to a million. Of the first user all are read, whatever their number.
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

/**
 * Reads the groups of the months that were added, user by user. Returns the keys of the users whose groups it has not
 * read: their events stay in the queue.
 */
export const readGroups = Effect.fnUntraced(function*(groups: Groups, programs: ReadonlyMap<string, Catalog>) {
  const found = { groups, programs }
  // events of an integrator whose metadata is not read yet stay in the queue
  const known = groups.months().filter(({ integratorId }) => programs.has(integratorId))
  const [first] = known.map(userKey)
  if (first === undefined) return new Set<string>()
  const max = yield* MaxGroupRows
  let rows = yield* selectGroups(known, max + 1)
  // the months are read in their order, and the last one of these rows in part
  let unread: ReadonlySet<string> = new Set(rows.length > max ? known.slice(rows.at(-1)?.ord).map(userKey) : [])
  if (unread.has(first)) {
    rows = yield* selectGroups(known.filter((month) => userKey(month) === first), null)
    unread = new Set(known.map(userKey).filter((key) => key !== first))
  }
  for (const row of rows) {
    if (unread.size > 0 && unread.has(userKey(row))) continue
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
  return unread
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
