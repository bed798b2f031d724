import { type PgProtocol, PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

/** OIDs of types that the driver has no names for. */
export const moreOids = { tid: 27, tidArray: 1010, xid: 28, xidArray: 1011 }

type Read<A> = Result.Result<A, PgTypes.CodecError>

const twoTo32 = 4_294_967_296

/** The codec of an unsigned number of so many bytes. */
const unsigned = (byteCount: number, { read, write }: {
  readonly read: (bytes: Uint8Array, offset: number) => number
  readonly write: (sink: PgProtocol.ValueSink, value: number) => void
}): PgTypes.Codec<number> => {
  const readSized = (bytes: Uint8Array, offset: number, size: number): Read<number> =>
    size === byteCount ? Result.succeed(read(bytes, offset)) : refused(`expected ${byteCount} bytes`)
  return {
    encode: (value) => {
      const bytes = Buffer.alloc(byteCount)
      bytes.writeUIntBE(value, 0, byteCount)
      return Result.succeed(bytes)
    },
    write: (sink, value) => {
      write(sink, value)
      return Result.void
    },
    decode: (bytes) => readSized(bytes, 0, bytes.length),
    read: readSized
  }
}

/** Milliseconds of 2000-01-01, from which PostgreSQL counts microseconds. */
const epochMillis = 946_684_800_000

/** The upper half of `infinity`; that of `-infinity` is its complement, and no finite instant has either. */
const infinity = 2_147_483_647

/** Divides 64 bits of microseconds by 1,000 in two steps, because a double holds 53. */
const readTimestamptz = (bytes: Uint8Array, offset: number, size: number): Read<number> => {
  const high = int32At(bytes, offset)
  if (size !== 8 || high === infinity || high === ~infinity) return refused("expected a finite timestamptz")
  const rest = high % 1_000
  const millis = Math.floor((rest * twoTo32 + (int32At(bytes, offset + 4) >>> 0)) / 1_000)
  return Result.succeed((high - rest) / 1_000 * twoTo32 + millis + epochMillis)
}

/** The driver's own encoding rounds instants after the year 2255. */
const writeTimestamptz = (sink: PgProtocol.ValueSink, millis: number): Result.Result<void, PgTypes.CodecError> => {
  if (!Number.isSafeInteger(millis)) return refused("expected an instant in whole milliseconds")
  const high = Math.floor((millis - epochMillis) / twoTo32)
  const micros = (millis - epochMillis - high * twoTo32) * 1_000
  const carried = Math.floor(micros / twoTo32)
  sink.int32(high * 1_000 + carried)
  sink.int32(micros - carried * twoTo32)
  return Result.void
}

const timestamptz: PgTypes.Codec<number> = {
  encode: (millis) => PgTypes.encode(BigInt(millis - epochMillis) * 1_000n, PgTypes.OID.int8),
  write: writeTimestamptz,
  decode: (bytes) => readTimestamptz(bytes, 0, bytes.length),
  read: readTimestamptz
}

/** A tuple identifier: the tuple's block, times 65,536, and its number in the block. */
const tid = unsigned(6, {
  read: (bytes, offset) => (int32At(bytes, offset) >>> 0) * 65_536 + uint16At(bytes, offset + 4),
  write: (sink, tid) => {
    sink.int32(Math.floor(tid / 65_536))
    sink.int16(tid % 65_536)
  }
})

/** The number of a transaction. */
const xid = unsigned(4, {
  read: (bytes, offset) => int32At(bytes, offset) >>> 0,
  write: (sink, xid) => sink.int32(xid)
})

/** The signs of a numeric. */
const positive = 0x0000
const negative = 0x4000

const zero = Result.succeed(0n)

const threeDigits = 1_000_000_000_000n

/** Digits of a numeric have base 10,000; three of them are exact in a double. Trailing zeros are left out. */
const readNumeric = (bytes: Uint8Array, offset: number, size: number): Read<bigint> => {
  const count = uint16At(bytes, offset)
  const sign = uint16At(bytes, offset + 4)
  const scale = uint16At(bytes, offset + 6)
  if (size !== 8 + 2 * count || (sign !== positive && sign !== negative) || scale !== 0) {
    return refused("expected a numeric without decimals")
  }
  if (count === 0) return zero
  const weight = uint16At(bytes, offset + 2)
  let value: bigint | undefined
  let three = 0
  for (let index = 0; index <= weight; index++) {
    three = three * 10_000 + (index < count ? uint16At(bytes, offset + 8 + 2 * index) : 0)
    if ((weight - index) % 3 > 0) continue
    value = value === undefined ? BigInt(three) : value * threeDigits + BigInt(three)
    three = 0
  }
  return Result.succeed(sign === negative ? -(value ?? 0n) : value ?? 0n)
}

const writeNumeric = (sink: PgProtocol.ValueSink, value: bigint): Result.Result<void> => {
  const magnitude = value < 0n ? -value : value
  const count = countDigits(magnitude)
  sink.int16(count)
  sink.int16(Math.max(0, count - 1))
  sink.int16(value < 0n ? negative : positive)
  sink.int16(0)
  writeDigits(sink, magnitude, count)
  return Result.void
}

const countDigits = (magnitude: bigint): number => {
  if (magnitude >= threeDigits) return countDigits(magnitude / threeDigits) + 3
  return magnitude === 0n ? 0 : magnitude < 10_000n ? 1 : magnitude < 100_000_000n ? 2 : 3
}

const writeDigits = (sink: PgProtocol.ValueSink, magnitude: bigint, count: number): void => {
  if (count > 3) writeDigits(sink, magnitude / threeDigits, count - 3)
  let rest = Number(count > 3 ? magnitude % threeDigits : magnitude)
  for (let unit = 10_000 ** (Math.min(3, count) - 1); unit >= 1; unit /= 10_000) {
    sink.int16(Math.floor(rest / unit))
    rest %= unit
  }
}

const numeric: PgTypes.Codec<bigint> = {
  encode: (value) => PgTypes.encode(value.toString(), PgTypes.OID.numeric),
  write: writeNumeric,
  decode: (bytes) => readNumeric(bytes, 0, bytes.length),
  read: readNumeric
}

/**
 * Reads and writes timestamptz as milliseconds, and numeric as bigint: every numeric of the schema is an integer.
 * Values are read where the driver received them and written into its frame; through a `Date` and a string they take
 * three times as long.
 */
export const registry = PgTypes.makeRegistry()
registry.register(PgTypes.OID.timestamptz, timestamptz, { arrayOid: PgTypes.OID.timestamptzArray })
registry.register(PgTypes.OID.numeric, numeric, { arrayOid: PgTypes.OID.numericArray })
registry.register(moreOids.tid, tid, { arrayOid: moreOids.tidArray })
registry.register(moreOids.xid, xid, { arrayOid: moreOids.xidArray })

const int32At = (bytes: Uint8Array, offset: number): number =>
  (uint16At(bytes, offset) << 16) | uint16At(bytes, offset + 2)

const uint16At = (bytes: Uint8Array, offset: number): number => (byteAt(bytes, offset) << 8) | byteAt(bytes, offset + 1)

const byteAt = (bytes: Uint8Array, offset: number): number => bytes[offset] ?? 0

const refused = (message: string): Result.Result<never, PgTypes.CodecError> =>
  Result.fail(new PgTypes.CodecError({ message }))
