import { slotExpression } from "@card-rewards/core/Slots"
import { Effect } from "effect"
import type { Refused } from "../Exit.ts"
import type { Connection } from "./Connection.ts"

/** A table with rows of integrators. */
export interface Table {
  readonly name: string
  readonly columns: ReadonlyArray<string>
  /** The tables of its foreign keys. */
  readonly references: ReadonlyArray<string>
  /** Where its rows are: its partitions, or itself. */
  readonly parts: ReadonlyArray<string>
}

/** All tables with a column `integrator_id`: first that of the integrators, each one after those that it references. */
export const tablesOf = Effect.fnUntraced(function*({ query }: Connection) {
  const found = yield* query<Table>(`
    SELECT c.relname AS name,
      ARRAY(SELECT a.attname::text FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns,
      ARRAY(SELECT other.relname::text FROM pg_constraint f JOIN pg_class other ON other.oid = f.confrelid
        WHERE f.contype = 'f' AND f.conrelid = c.oid AND other.oid <> c.oid
        UNION SELECT 'integrators' WHERE c.relname <> 'integrators') AS references,
      CASE c.relkind WHEN 'p' THEN ARRAY(SELECT part.relname::text FROM pg_inherits i
        JOIN pg_class part ON part.oid = i.inhrelid WHERE i.inhparent = c.oid) ELSE ARRAY[c.relname::text] END AS parts
    FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'integrator_id')
    ORDER BY c.relname`)
  const ordered: Array<Table> = []
  const isIn = (name: string) => ordered.some((table) => table.name === name)
  while (ordered.length < found.length) {
    const next = found.filter(({ name, references }) => !isIn(name) && references.every(isIn))
    if (next.length === 0) return yield* Effect.die(new Error("tables reference each other in a circle"))
    ordered.push(...next)
  }
  return ordered
})

/** The columns of one table. */
export const columnsOf = ({ query }: Connection, table: string) =>
  Effect.map(
    query<{ name: string }>(
      `SELECT attname AS name FROM pg_attribute
        WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
      [table]
    ),
    (rows) => rows.map(({ name }) => name)
  )

/** The integrators of some slots of whom a cell has rows. */
export const integratorsOf = Effect.fnUntraced(function*({ query }: Connection, slots: ReadonlyArray<number>) {
  const rows = yield* query<{ id: string }>(
    `SELECT integrator_id AS id FROM integrators WHERE ${slotExpression("integrator_id")} = ANY ($1) ORDER BY 1`,
    [slots]
  )
  return rows.map(({ id }) => id)
})

/** Rows of one table that are counted of an integrator, at most: one with as many is moved alone. */
const maxCounted = 20_000

/**
 * The slots with integrators, and about how many rows each has: the journal entries and events that its vaults have
 * numbered, the spend events that its lanes have, and users and unprocessed spend events up to 20,000 of an integrator.
 */
export const sizesOf = Effect.fnUntraced(function*({ query }: Connection, slots: ReadonlyArray<number>) {
  const sum = (what: string, table: string) =>
    `(SELECT coalesce(sum(${what}), 0) FROM ${table} t WHERE t.integrator_id = i.integrator_id)`
  const count = (table: string, each = "") => `(SELECT count(*) FROM (
    SELECT ${each} FROM ${table} t WHERE t.integrator_id = i.integrator_id LIMIT ${maxCounted}) counted)`
  const sums = [sum("entries + events", "vaults"), sum("position", "lanes")]
  const parts = [...sums, count("users"), count("spend_event_queue", "unnest(t.kinds)")]
  const slot = slotExpression("integrator_id")
  const rows = yield* query<{ slot: number; integrators: number; size: string }>(
    `SELECT ${slot} AS slot, count(*)::int AS integrators, sum(${parts.join(" + ")}) AS size
      FROM integrators i WHERE ${slot} = ANY ($1) GROUP BY 1`,
    [slots]
  )
  return new Map(rows.map(({ integrators, size, slot }) => [slot, { integrators, size: Number(size) }]))
})

/** What a cell has of integrators in a table: the number of rows, and a sum of hashes in which each row counts. */
export const digestOf = (
  { query }: Connection,
  { columns, name }: Table,
  integrators: ReadonlyArray<string>
): Effect.Effect<Digest, Refused> =>
  Effect.flatMap(
    query<Digest>(
      `SELECT count(*) AS rows, coalesce(sum(('x' || left(md5(r::text), 15))::bit(60)::bigint), 0) AS sum
        FROM (SELECT ${columns.join(", ")} FROM ${name} WHERE integrator_id = ANY ($1)) AS r`,
      [integrators]
    ),
    ([digest]) => digest === undefined ? Effect.die(new Error("no digest")) : Effect.succeed(digest)
  )

interface Digest {
  readonly rows: string
  readonly sum: string
}
