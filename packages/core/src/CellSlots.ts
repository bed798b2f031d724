import type { Unavailable } from "@card-rewards/domain/Errors"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { withinRequestDeadline } from "./Database.ts"

/** The slots that the database owns. */
export const ownedSlots = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ slot: number }>`SELECT slot FROM cell_slots WHERE state = 'owned'`
  const slots: ReadonlySet<number> = new Set(rows.map(({ slot }) => slot))
  return slots
})

/** A slot that is being moved from or to another cell, its peer; see migrations/0001_initial/Cells.ts. */
export interface MovingSlot {
  readonly slot: number
  readonly state: "leaving" | "arriving" | "left"
  readonly peer: string
}

/** The slots of moves that have not ended. */
export const movingSlots = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<MovingSlot>`SELECT slot, state, peer FROM cell_slots WHERE state <> 'owned' ORDER BY slot`
})

/** The slots that the database of a cell says are its own; see Slots.ts. */
export class CellSlots extends Context.Service<CellSlots, {
  readonly owned: Effect.Effect<ReadonlySet<number>, Unavailable>
}>()("@card-rewards/core/CellSlots") {
  static readonly layer = Layer.effect(
    CellSlots,
    Effect.map(SqlClient.SqlClient, (sql) =>
      CellSlots.of({
        owned: withinRequestDeadline(Effect.provideService(ownedSlots, SqlClient.SqlClient, sql))
      }))
  )
}
