import { PgTypes } from "@effect/sql-pg"

/** A parameter with the OID of its type. */
export const parameter = (oid: number, value: unknown): PgTypes.Parameter => ({
  [PgTypes.ParameterTypeId]: PgTypes.ParameterTypeId,
  oid,
  value
})

/** The greatest `bigint` of PostgreSQL. */
export const maxInt8 = 2n ** 63n - 1n

const column = <A>(oid: number) => (values: ReadonlyArray<A | null | undefined>): PgTypes.Parameter =>
  parameter(oid, values.map((value) => value ?? null))

/** One array parameter per column, for `unnest`: a statement's text is the same for any number of rows. */
export const columns = {
  text: column<string>(PgTypes.OID.textArray),
  int2: column<number>(PgTypes.OID.int2Array),
  int4: column<number>(PgTypes.OID.int4Array),
  int8: column<bigint>(PgTypes.OID.int8Array),
  bool: column<boolean>(PgTypes.OID.boolArray),
  numeric: column<bigint>(PgTypes.OID.numericArray),
  /** Milliseconds. */
  timestamptz: column<number>(PgTypes.OID.timestamptzArray),
  bytea: column<Uint8Array>(PgTypes.OID.byteaArray)
}

const scalar = <A>(oid: number) => (value: A | null | undefined): PgTypes.Parameter => parameter(oid, value ?? null)

/** Single values with an explicit type. */
export const value = {
  text: scalar<string>(PgTypes.OID.text),
  int4: scalar<number>(PgTypes.OID.int4),
  int8: scalar<bigint>(PgTypes.OID.int8),
  numeric: scalar<bigint>(PgTypes.OID.numeric),
  /** Milliseconds. */
  timestamptz: scalar<number>(PgTypes.OID.timestamptz),
  bytea: scalar<Uint8Array>(PgTypes.OID.bytea)
}
