import { value } from "@card-rewards/core/Database"
import { slotOf } from "@card-rewards/core/Slots"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Gives an integrator's slot this state in the cell, as a move to another cell does, or takes it back. */
export const setSlot = (integratorId: string, state: "owned" | "leaving" | "left") =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const peer = state === "owned" ? sql`NULL, mark = NULL` : sql`'other', mark = gen_random_uuid()`
    return sql`UPDATE cell_slots SET state = ${state}, peer = ${peer} WHERE slot = ${value.int4(slotOf(integratorId))}`
  })
