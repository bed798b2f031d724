import { deletionMark } from "@card-rewards/core/Slots"
import { Effect } from "effect"
import type { Connection } from "./Connection.ts"
import * as Tables from "./Tables.ts"

/** How many rows one transaction deletes. */
const deletedAtOnce = 10_000

/**
 * Deletes what a cell still has of slots that have left it, or of their copies that it is not to own, in batches, and
 * then forgets the slots. The audit leaves out what is being deleted, so that an interrupted deletion can go on.
 */
export const clearSlots = Effect.fnUntraced(function*(
  connection: Connection,
  slots: ReadonlyArray<number>,
  state: "left" | "arriving",
  onTable: (table: string, part: number) => Effect.Effect<void>
) {
  yield* connection.query("UPDATE cell_slots SET mark = $2 WHERE slot = ANY ($1) AND state = $3", [
    slots,
    deletionMark,
    state
  ])
  const integrators = yield* Tables.integratorsOf(connection, slots)
  const tables = integrators.length === 0 ? [] : yield* Tables.tablesOf(connection)
  const inBatches = (head: string, part: string, which = "") =>
    Effect.repeat(
      connection.change(
        `${head} WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM ${part} WHERE integrator_id = ANY ($1) ${which} LIMIT ${deletedAtOnce}))`,
        [integrators]
      ),
      { until: (changed) => changed < deletedAtOnce }
    )
  // a user that another one names cannot be deleted
  if (tables.length > 0) yield* inBatches("UPDATE users SET referred_by = NULL", "users", "AND referred_by IS NOT NULL")
  // the integrators last: what is left of others is found by them
  for (const [index, { name, parts }] of tables.toReversed().entries()) {
    yield* onTable(name, index / tables.length)
    for (const part of parts) yield* inBatches(`DELETE FROM ${part}`, part)
  }
  yield* connection.query("DELETE FROM cell_slots WHERE slot = ANY ($1) AND state = $2", [slots, state])
})
