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

const local = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" })
const zone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" })

/** The same instant where the reader is: `15 Jan 2030, 13:00:04 CET`. */
export const printLocal = (millis: number): string =>
  `${local.format(millis)} ${zone.formatToParts(millis).find((part) => part.type === "timeZoneName")?.value ?? ""}`

/** The value of an `<input type="datetime-local">`, read as UTC. */
export const toInput = (millis: number): string => printTimestamp(millis).slice(0, 19)
