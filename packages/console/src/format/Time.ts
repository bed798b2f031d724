import { dayMillis, dayOf, parseDate, parseTimestamp, printDate, printTimestamp } from "@card-rewards/domain/Time"

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

/** The UTC date of an instant, `2030-01-15`. */
export const dateOf = (millis: number): string => printDate(dayOf(millis))

/** When a UTC date begins; NaN for a text that is none. */
export const startOfDate = (date: string): number => parseDate(date) * dayMillis

/** `15 Jan 2030`, in UTC. */
export const printDay = (millis: number): string => {
  const iso = printTimestamp(millis)
  return `${Number(iso.slice(8, 10))} ${months[Number(iso.slice(5, 7)) - 1] ?? ""} ${iso.slice(0, 4)}`
}

/** `15 Jan 2030, 12:00:04`, in UTC. */
export const printTime = (millis: number): string => `${printDay(millis)}, ${printTimestamp(millis).slice(11, 19)}`

/** `15 Jan`, for axes. */
export const printShortDay = (millis: number): string => printDay(millis).slice(0, -5)

/** `Jan 2030`, in UTC. */
export const printMonth = (millis: number): string => printDay(millis).replace(/^\d+ /, "")

/** The time zone of shown instants: UTC, or the reader's. */
export type Zone = "UTC" | "local"

/** The part of an instant that is shown. */
export type TimePart = "all" | "day"

const locale = "en-GB"
const local: Record<TimePart, Intl.DateTimeFormat> = {
  all: new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" }),
  day: new Intl.DateTimeFormat(locale, { dateStyle: "medium" })
}
const zoneName = new Intl.DateTimeFormat(locale, { timeZoneName: "short" })

/** The instant in the reader's time zone: `15 Jan 2030, 13:00:04 CET`. */
export const printLocal = (millis: number): string =>
  `${local.all.format(millis)} ${nameOfZone(millis)}`

const nameOfZone = (millis: number): string =>
  zoneName.formatToParts(millis).find(({ type }) => type === "timeZoneName")?.value ?? ""

/** An instant, or a part of it, in a zone. A whole instant in local time names its zone. */
export const printIn = (zone: Zone, millis: number, part: TimePart): string => {
  if (zone === "local") return part === "all" ? printLocal(millis) : local[part].format(millis)
  return part === "all" ? printTime(millis) : printDay(millis)
}

/** The value of an `<input type="datetime-local">`, read as UTC; with milliseconds where there are some. */
export const toInput = (millis: number): string => printTimestamp(millis).replace(/(?:[.]000)?Z$/, "")

/** {@link toInput} of the second that an instant is in. */
export const toInputSeconds = (millis: number): string => toInput(Math.floor(millis / 1_000) * 1_000)

/** The instant of such a value; undefined while it is empty or incomplete. Seconds are left out where they are 0. */
export const parseInput = (text: string): number | undefined =>
  parseTimestamp(`${text.length === 16 ? `${text}:00` : text}Z`)
