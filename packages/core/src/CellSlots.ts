import type { Unavailable } from "@card-rewards/domain/Errors"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { withinRequestDeadline } from "./Database.ts"

/** The slots that a cell owns, with their epochs. */
export type OwnedSlots = ReadonlyMap<number, number>

/** The slots that the database owns. */
export const ownedSlots = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ slot: number; epoch: number }>`SELECT slot, epoch FROM cell_slots WHERE state = 'owned'`
  const slots: OwnedSlots = new Map(rows.map(({ epoch, slot }) => [slot, epoch]))
  return slots
})

/**
 * The owner of a slot. A restore or a failover can make two cells own one: then it is the cell that took it later,
 * which has the higher epoch. Where the epochs are equal nothing says which cell is right, and there is no owner.
 */
export const ownerOf = <Cell extends { readonly owned: OwnedSlots }>(slot: number, cells: Iterable<Cell>) => {
  let [owner, highest, isContested]: [Cell | undefined, number, boolean] = [undefined, 0, false]
  for (const cell of cells) {
    const epoch = cell.owned.get(slot) ?? 0
    if (epoch === 0 || epoch < highest) continue
    ;[owner, highest, isContested] = [cell, epoch, epoch === highest]
  }
  return { owner: isContested ? undefined : owner, isContested }
}

/** A slot that is being moved from or to another cell, its peer; see migrations/0001_initial/Cells.ts. */
export interface MovingSlot {
  readonly slot: number
  readonly state: "leaving" | "arriving" | "left"
  readonly peer: string
  readonly epoch: number
}

/** The slots of moves that have not ended. */
export const movingSlots = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<MovingSlot>`SELECT slot, state, peer, epoch FROM cell_slots WHERE state <> 'owned' ORDER BY slot`
})

/** The slots that the database of a cell says are its own; see Slots.ts. */
export class CellSlots extends Context.Service<CellSlots, {
  readonly owned: Effect.Effect<OwnedSlots, Unavailable>
}>()("@card-rewards/core/CellSlots") {
  static readonly layer = Layer.effect(
    CellSlots,
    Effect.map(SqlClient.SqlClient, (sql) =>
      CellSlots.of({
        owned: withinRequestDeadline(Effect.provideService(ownedSlots, SqlClient.SqlClient, sql))
      }))
  )
}
