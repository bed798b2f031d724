import { printTimestamp } from "@card-rewards/domain/Time"

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

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

/** Where an instant is told: in UTC, or where the reader is. */
export type Zone = "UTC" | "local"

/** What of an instant is told. */
export type TimePart = "all" | "day" | "clock"

const locale = "en-GB"
const local: Record<TimePart, Intl.DateTimeFormat> = {
  all: new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" }),
  day: new Intl.DateTimeFormat(locale, { dateStyle: "medium" }),
  clock: new Intl.DateTimeFormat(locale, { timeStyle: "medium" })
}
const zoneName = new Intl.DateTimeFormat(locale, { timeZoneName: "short" })

/** The same instant where the reader is: `15 Jan 2030, 13:00:04 CET`. */
export const printLocal = (millis: number): string =>
  `${local.all.format(millis)} ${zoneName.formatToParts(millis).find(({ type }) => type === "timeZoneName")?.value ?? ""}`

/** An instant in a zone, or a part of it. A whole one that is not UTC says where it is. */
export const printIn = (zone: Zone, millis: number, part: TimePart): string => {
  if (zone === "local") return part === "all" ? printLocal(millis) : local[part].format(millis)
  if (part === "all") return printTime(millis)
  return part === "day" ? printDay(millis) : printTimestamp(millis).slice(11, 19)
}

/** The value of an `<input type="datetime-local">`, read as UTC. */
export const toInput = (millis: number): string => printTimestamp(millis).slice(0, 19)
