// @effect-diagnostics globalDate:off -- a DateTime for each timestamp costs several times as much
import { Schema, SchemaTransformation } from "effect"

/** Milliseconds of a UTC day. */
export const dayMillis = 86_400_000

/** 0001-01-01T00:00:00.000Z, the earliest instant on the wire. */
export const earliestMillis = -62_135_596_800_000

/** 9999-12-31T23:59:59.999Z, the latest instant on the wire. */
export const latestMillis = 253_402_300_799_999

/** An instant as milliseconds since 1970-01-01T00:00:00Z, in the years 0001 to 9999. */
export const Instant = Schema.Int.check(
  Schema.isBetween({ minimum: earliestMillis, maximum: latestMillis })
).pipe(Schema.brand("Instant"))
export type Instant = typeof Instant.Type

/** Brands milliseconds and clamps them to the range. */
export const instant = (millis: number): Instant =>
  Instant.make(Math.min(Math.max(millis, earliestMillis), latestMillis), { disableChecks: true })

const pattern = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,3})?Z$/

/**
 * The milliseconds of a timestamp: UTC with a final `Z`, 0 to 3 fraction digits, a real calendar instant of the years
 * 0001 to 9999 (decisions, section 1). Undefined for any other text.
 */
export const parseTimestamp = (value: string): number | undefined => {
  if (!pattern.test(value)) return undefined
  const year = twoDigits(value, 0) * 100 + twoDigits(value, 2)
  const month = twoDigits(value, 5)
  const day = twoDigits(value, 8)
  const [hour, minute, second] = [twoDigits(value, 11), twoDigits(value, 14), twoDigits(value, 17)]
  if (year === 0 || month === 0 || month > 12 || hour > 23 || minute > 59 || second > 59) return undefined
  const firstDay = daysBefore(year, month)
  if (day === 0 || day > daysBefore(year, month + 1) - firstDay) return undefined
  const fraction = value.length > 21 ? Number(value.slice(19, -1)) * 1_000 : 0
  return (firstDay + day - 1) * dayMillis + ((hour * 60 + minute) * 60 + second) * 1_000 + Math.round(fraction)
}

const twoDigits = (text: string, at: number): number => text.charCodeAt(at) * 10 + text.charCodeAt(at + 1) - 0x30 * 11

/** Days from 1970-01-01 to the first day of a month, counted in years that begin in March: leap days come last. */
const daysBefore = (year: number, month: number): number => {
  const months = (month + 9) % 12
  const march = month > 2 ? year : year - 1
  const leapDays = Math.floor(march / 4) - Math.floor(march / 100) + Math.floor(march / 400)
  return march * 365 + leapDays + Math.floor((153 * months + 2) / 5) - 719_468
}

/** Formats an instant as `YYYY-MM-DDTHH:mm:ss.sssZ`, the only format of responses. */
export const printTimestamp = (millis: number): string => {
  const date = new Date(millis)
  const year = date.getUTCFullYear()
  if (!(year >= 0 && year <= 9_999)) return date.toISOString()
  const month = date.getUTCMonth() + 1
  const day = date.getUTCDate()
  const hour = date.getUTCHours()
  const minute = date.getUTCMinutes()
  const second = date.getUTCSeconds()
  const milli = date.getUTCMilliseconds()
  // as toISOString, which takes three times as long: a page of rewards has 150 timestamps
  return String.fromCharCode(
    digit(year, 1_000),
    digit(year, 100),
    digit(year, 10),
    digit(year, 1),
    0x2d,
    digit(month, 10),
    digit(month, 1),
    0x2d,
    digit(day, 10),
    digit(day, 1),
    0x54,
    digit(hour, 10),
    digit(hour, 1),
    0x3a,
    digit(minute, 10),
    digit(minute, 1),
    0x3a,
    digit(second, 10),
    digit(second, 1),
    0x2e,
    digit(milli, 100),
    digit(milli, 10),
    digit(milli, 1),
    0x5a
  )
}

/** The character of a decimal digit: of the hundreds of `value` where the unit is 100. */
const digit = (value: number, unit: number): number => 0x30 + Math.floor(value / unit) % 10

/** An {@link Instant} on the wire: UTC, ISO 8601, with 0 to 3 fraction digits in requests and 3 in responses. */
export const Timestamp = Schema.String.check(
  Schema.makeFilter<string>((value) => parseTimestamp(value) !== undefined, {
    expected: "a UTC timestamp such as 2026-12-01T00:00:00.000Z",
    toJsonSchema: () => ({
      format: "date-time",
      pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,3})?Z$"
    })
  })
).pipe(Schema.decodeTo(
  Instant,
  SchemaTransformation.transform({
    decode: (value) => parseTimestamp(value) ?? Number.NaN,
    encode: (millis: number) => printTimestamp(millis)
  })
))

/** The UTC day of an instant, as the number of days since 1970-01-01. */
export const dayOf = (at: number): number => Math.floor(at / dayMillis)

/** Formats a day's number as `YYYY-MM-DD`. */
export const printDate = (day: number): string => printTimestamp(day * dayMillis).slice(0, 10)

/** The number of a day that is printed as `YYYY-MM-DD`; NaN for any other text. */
export const parseDate = (date: string): number => dayOf(parseTimestamp(`${date}T00:00:00Z`) ?? Number.NaN)

/** A UTC day on the wire and in code, as `YYYY-MM-DD`, in the years 0001 to 9999. */
export const CalendarDate = Schema.String.check(
  Schema.makeFilter<string>((value) => !Number.isNaN(parseDate(value)), {
    expected: "a date such as 2026-12-01",
    toJsonSchema: () => ({ format: "date", pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" }),
    // of one year, so that random ranges are often valid statements
    arbitraryConstraint: { patterns: [{ source: "^2026-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$", flags: "" }] }
  })
)

/** A UTC calendar month as one number, `year × 12 + month index`: the period of caps. */
export type Month = number

/** The UTC calendar month of an instant. */
export const monthOf = (at: number): Month => {
  const date = new Date(at)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** Formats a month's number as `YYYY-MM`. */
export const printMonth = (month: Month): string =>
  `${Math.floor(month / 12)}`.padStart(4, "0") + "-" + `${month % 12 + 1}`.padStart(2, "0")
