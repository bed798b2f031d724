import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

const microsAt1970 = -946_684_800_000_000n

const timestamptz: PgTypes.Codec<number> = {
  encode: (millis) => PgTypes.encode(BigInt(millis) * 1_000n + microsAt1970, PgTypes.OID.int8),
  decode: (bytes) =>
    Result.map(PgTypes.decode(bytes, PgTypes.OID.timestamptz, 1), (value) =>
      value instanceof Date ? value.getTime() : Number.NaN)
}

const zero = PgTypes.encode("0", PgTypes.OID.numeric)

/** Zero is encoded once, because most amounts that are written are zero. */
const numeric: PgTypes.Codec<bigint> = {
  encode: (value) => value === 0n ? zero : PgTypes.encode(value.toString(), PgTypes.OID.numeric),
  decode: (bytes) => Result.map(PgTypes.decode(bytes, PgTypes.OID.numeric, 1), (value) => BigInt(`${value}`))
}

/** Reads and writes timestamptz as milliseconds, and numeric as bigint: every numeric of the schema is an integer. */
export const registry = PgTypes.makeRegistry()
registry.register(PgTypes.OID.timestamptz, timestamptz, { arrayOid: PgTypes.OID.timestamptzArray })
registry.register(PgTypes.OID.numeric, numeric, { arrayOid: PgTypes.OID.numericArray })
