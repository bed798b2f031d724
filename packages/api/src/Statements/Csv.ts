import { printUnits } from "@card-rewards/domain/Money"
import { movementNames, type Statement, type StatementBalance } from "@card-rewards/domain/Statement"

const balances = ["held", "free", "reserved", "waiting"] as const satisfies ReadonlyArray<keyof StatementBalance>

const header = [
  "date",
  ...balances.map((name) => `opening ${name}`),
  ...movementNames,
  ...balances.map((name) => `closing ${name}`)
]

/**
 * A statement as CSV (RFC 4180), a line for each day. A number of more than 15 digits would be rounded by a
 * spreadsheet; the asset behind each amount makes it text.
 */
export const printCsv = ({ asset, days }: Statement): string => {
  const print = (amount: bigint) => printUnits(amount, asset)
  const rows = days.map((day) => [
    day.date,
    ...balances.map((name) => print(day.opening[name])),
    ...movementNames.map((name) => print(day[name])),
    ...balances.map((name) => print(day.closing[name]))
  ])
  return [header, ...rows].map((cells) => `${cells.join(",")}\r\n`).join("")
}
