import { Unavailable } from "@card-rewards/domain/Errors"
import { Array, Effect } from "effect"
import { Statement } from "effect/sql"
import { hash } from "node:crypto"
import { columns, value } from "./Database/Columns.ts"
import { literal } from "./Database/Table.ts"

/** Integrators are spread over this number of slots; a cell owns some of them, and all where there is one cell. */
export const slotCount = 256

/** All slots. */
export const allSlots: ReadonlySet<number> = new Set(Array.range(0, slotCount - 1))

/** The slot of an integrator: the first byte of the SHA-256 of its id. Its API keys begin with it. */
export const slotOf = (integratorId: string): number => Number.parseInt(hash("sha256", integratorId).slice(0, 2), 16)

/** {@link slotOf} in SQL, of the column with the id. */
export const slotExpression = (column: string): string => `get_byte(sha256(convert_to(${column}, 'UTF8')), 0)`

/**
 * Whether this cell owns the slot of an integrator, whose id `column` names. Each transaction that writes rows of an
 * integrator asks this in one of its statements. A move lets other cells take a slot only after all transactions have
 * ended that began before the slot was marked as leaving, so that the answer needs no lock. It costs one look-up in 256
 * rows, and a hash; without the `LIMIT` PostgreSQL would read all of them.
 */
export const isOwned = (column: string): Statement.Fragment => literal(isOwnedSql(column))

/** {@link isOwned} as text. */
export const isOwnedSql = (column: string): string => `(SELECT 1 FROM cell_slots WHERE cell_slots.state = 'owned'
    AND cell_slots.slot = ${slotExpression(column)} LIMIT 1) IS NOT NULL`

/**
 * SQL for the integrators whose rows are here while this cell does not own their slots: `NOT IN` them is
 * {@link isOwned} for statements that read very many rows. While no slots are moved there are none, and no integrator
 * is read; otherwise all are.
 */
export const integratorsOnTheMove = `SELECT i.integrator_id FROM integrators i
  WHERE EXISTS (SELECT FROM cell_slots WHERE state <> 'owned') AND NOT (${isOwnedSql("i.integrator_id")})`

/** The mark of a slot whose rows are being deleted, of which a part may be gone: it has left, or is not to arrive. */
export const deletionMark = "00000000-0000-0000-0000-000000000000"

/** SQL for the integrators whose rows are being deleted here. Their own rows go last. */
export const integratorsBeingDeleted = `SELECT i.integrator_id FROM integrators i
  WHERE EXISTS (SELECT FROM cell_slots WHERE mark = '${deletionMark}') AND ${slotExpression("i.integrator_id")} IN (
    SELECT slot FROM cell_slots WHERE mark = '${deletionMark}')`

/** Whether this cell owns the slots of all of these integrators: {@link isOwned} for a statement with many rows. */
export const areOwned = (integratorIds: ReadonlyArray<string>): Statement.Fragment => {
  const slots = [...new Set(integratorIds.map(slotOf))]
  return Statement.fragment([
    Statement.literal("(SELECT count(*) FROM cell_slots WHERE state = 'owned' AND slot = ANY("),
    Statement.parameter(columns.int4(slots)),
    Statement.literal(")) = "),
    Statement.parameter(value.int4(slots.length))
  ])
}

/** SQL for the slots among these that this cell owns, as an array. */
export const ownedAmong = (slots: ReadonlyArray<number>): Statement.Fragment =>
  Statement.fragment([
    Statement.literal("ARRAY(SELECT slot::int FROM cell_slots WHERE state = 'owned' AND slot = ANY("),
    Statement.parameter(columns.int4([...new Set(slots)])),
    Statement.literal("))")
  ])

/**
 * The epoch in which this cell owns the slot of an integrator; null where it does not own it. It is another one when
 * the slot has been another cell's meanwhile.
 */
export const epochOf = (column: string): Statement.Fragment =>
  literal(`(SELECT cell_slots.epoch FROM cell_slots
    WHERE cell_slots.state = 'owned' AND cell_slots.slot = ${slotExpression(column)} LIMIT 1)`)

/** The error of a request for an integrator whose slot no cell owns that can be reached, or not any more. */
export const notOwned = () =>
  new Unavailable({ message: "The integrator's data cannot be reached now; send the same request again" })

/** A row that a statement has locked, or would have. */
export interface Owned {
  readonly isOwned: boolean
}

/** Fails unless there are rows and each one's integrator is of a slot that this cell owns. */
export const requireOwned = (rows: ReadonlyArray<Owned>): Effect.Effect<void, Unavailable> =>
  rows.length > 0 && rows.every((row) => row.isOwned) ? Effect.void : Effect.fail(notOwned())
