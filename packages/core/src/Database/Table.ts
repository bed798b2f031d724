import { PgTypes } from "@effect/sql-pg"
import { String, Struct } from "effect"
import { Statement } from "effect/sql"
import { moreOids } from "./Codecs.ts"
import { parameter } from "./Columns.ts"

/** A column: the TypeScript type of its values, and PostgreSQL's OID of their array type. */
export interface Column<A> {
  readonly arrayOid: number
  /** Carries the type only; never set. */
  readonly Type?: A
}

type Columns = Readonly<Record<string, Column<unknown>>>

const column = <A>(arrayOid: number) => <B extends A = A>(): Column<B> => ({ arrayOid })

/** `text`; a narrower type of strings may be given. */
export const text = column<string>(PgTypes.OID.textArray)
/** `smallint` */
export const int2 = column<number>(PgTypes.OID.int2Array)
/** `integer` */
export const int4 = column<number>(PgTypes.OID.int4Array)
/** `bigint` */
export const int8 = column<bigint>(PgTypes.OID.int8Array)
/** `boolean` */
export const bool = column<boolean>(PgTypes.OID.boolArray)
/** `numeric` without decimals */
export const numeric = column<bigint>(PgTypes.OID.numericArray)
/** `timestamptz`, in milliseconds. */
export const timestamptz = column<number>(PgTypes.OID.timestamptzArray)
/** `bytea` */
export const bytea = column<Uint8Array>(PgTypes.OID.byteaArray)

/** `tid`, as a number; see {@link rowVersion}. */
const tid = column<number>(moreOids.tidArray)
/** `xid` */
const xid = column<number>(moreOids.xidArray)

/** A column that may be null. */
export const nullable = <A>(column: Column<A>): Column<A | null> => column

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name

type Value<C> = C extends Column<infer A> ? A : never

type NullableIn<C extends Columns> = { [K in keyof C]: null extends Value<C[K]> ? K : never }[keyof C]

/**
 * What names a version of a row that is read: its tuple identifier, and the transaction that wrote it. A later
 * statement of the same transaction changes the row by them, without a look-up in an index. The transaction holds the
 * lock that guards the row, so that no other one changes it meanwhile.
 */
export const rowVersion = { ctid: tid(), xmin: xid() }

/** Names a version of a row; see {@link rowVersion}. */
export type RowVersion = Row<ColumnList<typeof rowVersion>>

/** A row as it is read, with names in camel case. */
type RowOf<C extends Columns> = { readonly [K in keyof C & string as CamelCase<K>]: Value<C[K]> }

/** A row as it is written: nullable columns may be omitted. */
type WrittenOf<C extends Columns> =
  & { readonly [K in Exclude<keyof C, NullableIn<C>> & string as CamelCase<K>]: Value<C[K]> }
  & { readonly [K in NullableIn<C> & string as CamelCase<K>]?: Value<C[K]> | undefined }

/** Some columns, in order, and the SQL fragments that name them. */
export interface ColumnList<C extends Columns> {
  readonly columns: C
  /** `user_id, created_at` */
  readonly names: Statement.Fragment
  /** `e.user_id, e.created_at` */
  readonly of: (alias: string) => Statement.Fragment
  /** `e.user_id AS "userId"`: for `withoutTransform`, which saves the renaming of each row's columns. */
  readonly renamed: (alias: string) => Statement.Fragment
  /** `(SELECT unnest($1), unnest($2)) AS t(user_id, created_at)`: one array per column, for any number of rows. */
  readonly unnest: (rows: ReadonlyArray<WrittenOf<C>>) => Statement.Fragment
  /** `user_id = t.user_id, created_at = t.created_at` */
  readonly setFrom: (alias: string) => Statement.Fragment
  /** `b.user_id = t.user_id AND b.created_at = t.created_at` */
  readonly match: (alias: string, other: string) => Statement.Fragment
  /** The rows of a statement's `values`, which selects these columns in order. */
  readonly rows: (values: ReadonlyArray<ReadonlyArray<unknown>>) => ReadonlyArray<RowOf<C>>
  readonly pick: <K extends keyof C & string>(...names: ReadonlyArray<K>) => ColumnList<Pick<C, K>>
}

/** A table, with the columns that this service reads or writes by rows. */
export interface Table<C extends Columns> extends ColumnList<C> {
  /** `INSERT INTO rewards (user_id, …) SELECT * FROM (SELECT unnest($1), …) AS t(user_id, …)` */
  readonly insert: (rows: ReadonlyArray<WrittenOf<C>>) => Statement.Fragment
}

/** A row of a table, or of some of its columns, as it is read. */
export type Row<L> = L extends ColumnList<infer C> ? RowOf<C> : never

/** A row as `insert` and `unnest` accept it. */
export type Written<L> = L extends ColumnList<infer C> ? WrittenOf<C> : never

/** A fragment of this text, as `sql.literal` makes it where there is a client. */
export const literal = (sql: string): Statement.Fragment => Statement.fragment([Statement.literal(sql)])

/** Defines columns that belong together in a statement but not in one table. */
export const columnList = <C extends Columns>(columns: C): ColumnList<C> => {
  const names = Object.keys(columns)
  const joined = names.join(", ")
  return {
    columns,
    names: literal(joined),
    of: (alias) => literal(names.map((name) => `${alias}.${name}`).join(", ")),
    renamed: (alias) => literal(names.map((name) => `${alias}.${name} AS "${String.snakeToCamel(name)}"`).join(", ")),
    unnest: unnestOf(columns),
    setFrom: (alias) => literal(names.map((name) => `${name} = ${alias}.${name}`).join(", ")),
    match: (alias, other) => literal(names.map((name) => `${alias}.${name} = ${other}.${name}`).join(" AND ")),
    rows: rowsOf(names),
    pick: (...picked) => columnList(Struct.pick(columns, picked))
  }
}

/** Defines a table and its columns. Each column of the schema is named once, in Tables.ts. */
export const table = <C extends Columns>(name: string, columns: C): Table<C> => {
  const list = columnList(columns)
  const head = Statement.literal(`INSERT INTO ${name} (${Object.keys(columns).join(", ")}) SELECT * FROM `)
  return { ...list, insert: (rows) => Statement.fragment([head, ...list.unnest(rows).segments]) }
}

/** A function of `rows` whose body is compiled when it is first called: an unused column list costs nothing. */
const compiled = <A, B>(body: () => string): (rows: ReadonlyArray<A>) => B => {
  let run: ((rows: ReadonlyArray<A>) => B) | undefined
  return (rows) => (run ??= new Function("rows", body()) as (rows: ReadonlyArray<A>) => B)(rows)
}

/**
 * Makes rows of values by an object literal. An object that is filled name by name, as the driver does it, becomes a
 * hash table beyond 16 columns and takes ten times as long.
 */
const rowsOf = <C extends Columns>(names: ReadonlyArray<string>): ColumnList<C>["rows"] =>
  compiled(() => {
    const fields = names.map((name, index) => `${String.snakeToCamel(name)}: values[${index}]`)
    return `return rows.map((values) => ({ ${fields.join(", ")} }))`
  })

/** In the select list: in the `FROM` clause PostgreSQL first makes a copy of each column. */
const unnestOf = <C extends Columns>(columns: C): ColumnList<C>["unnest"] => {
  const names = Object.keys(columns)
  const before = names.map((_, index) => Statement.literal(index === 0 ? "(SELECT unnest(" : "), unnest("))
  const end = Statement.literal(`)) AS t(${names.join(", ")})`)
  const oids = Object.values(columns).map(({ arrayOid }) => arrayOid)
  const transpose = transposeOf(names)
  return (rows) => {
    const arrays = transpose(rows)
    const parameters = before.flatMap((literal, index) => [
      literal,
      Statement.parameter(parameter(oids[index] ?? 0, arrays[index]))
    ])
    return Statement.fragment([...parameters, end])
  }
}

/** Makes an array of each column. A property that is named by a variable is read slowly. */
const transposeOf = (names: ReadonlyArray<string>) =>
  compiled<unknown, ReadonlyArray<ReadonlyArray<unknown>>>(() => {
    const arrays = names.map(() => "new Array(rows.length)")
    const fields = names.map((name, index) => `arrays[${index}][i] = row.${String.snakeToCamel(name)} ?? null`)
    return `const arrays = [${arrays.join(", ")}]
      for (let i = 0; i < rows.length; i++) { const row = rows[i]; ${fields.join("; ")} }
      return arrays`
  })
