import { compareCodePoints, text } from "@card-rewards/domain/Ids"
import { Amount, Cents } from "@card-rewards/domain/Money"
import { monthOf, parseTimestamp, printMonth, printTimestamp, Timestamp } from "@card-rewards/domain/Time"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const accepts = (schema: Schema.Codec<unknown, unknown>) => (value: unknown) =>
  Schema.decodeUnknownExit(schema)(value)._tag === "Success"

describe("timestamps", () => {
  it.each([
    ["2026-02-28T23:59:59Z", "2026-02-28T23:59:59.000Z"],
    ["2024-02-29T00:00:00.1Z", "2024-02-29T00:00:00.100Z"],
    ["0001-01-01T00:00:00.00Z", "0001-01-01T00:00:00.000Z"],
    ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"],
    ["1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"]
  ])("%s is printed as %s", (input, output) => {
    assert.strictEqual(Schema.encodeSync(Timestamp)(Schema.decodeUnknownSync(Timestamp)(input)), output)
  })

  it.each([
    "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-10T00:00:00Z", "2026-04-31T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T23:60:00Z", "2026-01-01T23:59:60Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z",
    "2026-01-01T00:00:00.0000Z", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00",
    "2026-01-01",
    " 2026-01-01T00:00:00Z", "2026-01-01t00:00:00z", "２026-01-01T00:00:00Z", "", "now"
  ])("%j is none", (input) => assert.isUndefined(parseTimestamp(input)))

  it.prop(
    "are read back as they were printed",
    [Schema.Int.check(Schema.isBetween({ minimum: -62_135_596_800_000, maximum: 253_402_300_799_999 }))],
    ([millis]) => {
      const printed = printTimestamp(millis)
      assert.strictEqual(printed, new Date(millis).toISOString())
      assert.strictEqual(parseTimestamp(printed), millis)
      assert.strictEqual(monthOf(millis), Number(printed.slice(0, 4)) * 12 + Number(printed.slice(5, 7)) - 1)
      assert.strictEqual(printMonth(monthOf(millis)), printed.slice(0, 7))
    }
  )

  const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
  it.prop(
    "are real instants: those that a Date prints as they were written",
    [upTo(9_999), upTo(13), upTo(32), upTo(24), upTo(60), upTo(60), upTo(999)],
    ([year, month, day, hour, minute, second, milli]) => {
      const digits = (part: number, count = 2) => `${part}`.padStart(count, "0")
      const date = `${digits(year, 4)}-${digits(month)}-${digits(day)}`
      const text = `${date}T${digits(hour)}:${digits(minute)}:${digits(second)}.${digits(milli, 3)}Z`
      const millis = Date.parse(text)
      const isReal = year > 0 && !Number.isNaN(millis) && new Date(millis).toISOString() === text
      assert.strictEqual(parseTimestamp(text), isReal ? millis : undefined)
    }
  )
})

describe("amounts", () => {
  it("are digits: leading zeros are read and never printed", () => {
    assert.strictEqual(Schema.encodeSync(Amount)(Schema.decodeUnknownSync(Amount)("000120")), "120")
    assert.isTrue(accepts(Cents)("9".repeat(18)))
    assert.isTrue(accepts(Amount)("9".repeat(78)))
  })

  const notCents = ["", "-1", "+1", "1.0", "1e3", "0x1", " 1", "1_000", "٣", "9".repeat(19)]
  it.each(notCents)("%j is not an amount of cents", (input) => {
    assert.isFalse(accepts(Cents)(input))
  })

  it.each([1, 1n, null, "9".repeat(79)])("%s is not an amount of an asset", (input) =>
    assert.isFalse(accepts(Amount)(input)))
})

describe("text", () => {
  it("counts code points", () => {
    assert.isTrue(accepts(text(1, 128))("😀".repeat(128)))
    assert.isFalse(accepts(text(1, 128))("😀".repeat(129)))
  })

  it.each(["", "a\0b", "\ud800", "\udc00x"])("refuses %j", (input) => assert.isFalse(accepts(text(1, 128))(input)))
})

describe("order by code point", () => {
  it.prop("is that of the strings' code points", [Schema.String, Schema.String], ([left, right]) => {
    const points = (value: string) => Array.from(value, (char) => char.codePointAt(0) ?? 0)
    const [a, b] = [points(left), points(right)]
    const at = a.findIndex((point, index) => point !== b[index])
    const expected = at === -1 ? a.length - b.length : (a[at] ?? 0) - (b[at] ?? -1)
    if (left.isWellFormed() && right.isWellFormed()) {
      assert.strictEqual(Math.sign(compareCodePoints(left, right)), Math.sign(expected))
    }
  })

  it("puts what is beyond the first plane last", () => assert.isTrue(compareCodePoints("\uffff", "😀") < 0))
})
