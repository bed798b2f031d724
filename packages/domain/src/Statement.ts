import { Schema } from "effect"
import type { Move } from "./Journal.ts"
import { Asset, digits } from "./Money.ts"
import { CalendarDate, printDate } from "./Time.ts"

/** The most days of a statement (decisions, section 9). */
export const maxStatementDays = 400

/** Movements of a vault in one asset, as a statement lists them. Smallest units, none negative. */
export interface Movements {
  /** Money that came into the vault. */
  readonly deposits: bigint
  /** Money that left the vault, other than by claims. */
  readonly withdrawals: bigint
  /** Money that was paid to users. */
  readonly claims: bigint
  /** Rewards that were created, reserved or waiting. */
  readonly earned: bigint
  /** What refunds took off rewards that were not paid yet. What was paid becomes owed and does not count here. */
  readonly refunded: bigint
  /** What matured rewards returned to free money because their users owed it. */
  readonly recovered: bigint
  /** What became claimable. */
  readonly matured: bigint
}

/** The names of the movements, in the order in which a statement lists them. */
export const movementNames = [
  "deposits",
  "withdrawals",
  "claims",
  "earned",
  "refunded",
  "recovered",
  "matured"
] as const satisfies ReadonlyArray<keyof Movements>

/** No movement at all. */
export const noMovements: Movements = {
  deposits: 0n,
  withdrawals: 0n,
  claims: 0n,
  earned: 0n,
  refunded: 0n,
  recovered: 0n,
  matured: 0n
}

/**
 * The movements that an entry between two accounts adds to (1) or takes from (-1). Other entries add to none. A
 * recovery releases pending money by the same entry as a refund; its second one, from `owed` to `clawedBack`, moves the
 * amount from `refunded` to `recovered`.
 */
export const movementsOf: Readonly<Record<string, ReadonlyArray<readonly [name: keyof Movements, sign: bigint]>>> = {
  "world → free": [["deposits", 1n]],
  "free → world": [["withdrawals", 1n]],
  "claimable → paid": [["claims", 1n]],
  // the rewards of a large claim are paid one by one, in place of a part of the claim's own entry
  "paid → claimable": [["claims", -1n]],
  "free → pending": [["earned", 1n]],
  "promised → awaitingFunding": [["earned", 1n]],
  "awaitingFunding → promised": [["refunded", 1n]],
  "claimable → free": [["refunded", 1n]],
  "pending → free": [["refunded", 1n]],
  "owed → clawedBack": [["recovered", 1n], ["refunded", -1n]],
  "pending → claimable": [["matured", 1n]]
}

/** Movements that grow with each journal entry. */
export type Totals = { -readonly [Name in keyof Movements]: Movements[Name] }

/** {@link movementsOf} by the accounts of an entry, so that an entry needs no name. */
const movementsBetween = new Map<string, Map<string, (typeof movementsOf)[string]>>()
for (const [name, movements] of Object.entries(movementsOf)) {
  const [from = "", to = ""] = name.split(" → ")
  movementsBetween.set(from, (movementsBetween.get(from) ?? new Map()).set(to, movements))
}

/** Adds an entry to the sums of the entries before it. */
export const addEntry = (totals: Totals, { amount, from, to }: Move): void => {
  for (const [name, sign] of movementsBetween.get(from)?.get(to) ?? []) totals[name] += sign * amount
}

/** The state of a vault in one asset at the end of a day: its free money, and all movements since the beginning. */
export interface DayEnd extends Movements {
  /** Days since 1970-01-01, UTC. */
  readonly day: number
  readonly free: bigint
}

/** Sums of many amounts may have more digits than one amount. */
const Total = digits(100)

/** The money of a vault at an instant. */
export const StatementBalance = Schema.Struct({ held: Total, free: Total, reserved: Total, waiting: Total }).annotate({
  identifier: "StatementBalance",
  description: "`held` is all money in the vault, `free` the part that is not reserved for rewards and `reserved` " +
    "the other one; `waiting` is what rewards that await funding need beyond it."
})
export type StatementBalance = typeof StatementBalance.Type

/** One UTC day of a statement. */
export const StatementDay = Schema.Struct({
  date: CalendarDate,
  opening: StatementBalance,
  deposits: Total,
  withdrawals: Total,
  claims: Total,
  earned: Total,
  refunded: Total,
  recovered: Total,
  matured: Total,
  closing: StatementBalance
}).annotate({
  identifier: "StatementDay",
  description: "`closing.held = opening.held + deposits − withdrawals − claims`, and what the vault owes for unpaid " +
    "rewards, `reserved + waiting`, grows by `earned − refunded − recovered − claims`. `refunded` is what refunds " +
    "took off rewards that were not paid yet; `matured` is what became claimable."
})

/** A statement of a vault in one asset (decisions, section 9). */
export const Statement = Schema.Struct({
  asset: Asset,
  from: CalendarDate,
  to: CalendarDate,
  opening: StatementBalance,
  closing: StatementBalance,
  days: Schema.Array(StatementDay)
}).annotate({
  identifier: "Statement",
  description: "The movements of the vault in one asset by UTC days, oldest first, up to the present one. Amounts " +
    "are smallest units. A day that has ended never changes."
})
export type Statement = typeof Statement.Type

/**
 * The statement of the days `from` to `to`, or to `today` where that is earlier, as numbers since 1970. `ends` are the
 * states at the ends of days, in order: all days from `from` on on which the state changed, and the last one before.
 */
export const statementOf = (
  { asset, from, to, today }: {
    readonly asset: Asset
    readonly from: number
    readonly to: number
    readonly today: number
  },
  ends: ReadonlyArray<DayEnd>
): Statement => {
  const beginning: Omit<DayEnd, "day"> = { ...noMovements, free: 0n }
  let before = ends.findLast(({ day }) => day < from) ?? beginning
  const opening = balanceOf(before)
  const byDay = new Map(ends.map((end) => [end.day, end]))
  const days = Array.from({ length: Math.max(0, Math.min(to, today) - from + 1) }, (_, index) => {
    const after = byDay.get(from + index) ?? before
    const opening = balanceOf(before)
    const line = { date: printDate(from + index), opening, ...between(before, after), closing: balanceOf(after) }
    before = after
    return line
  })
  return { asset, from: printDate(from), to: printDate(to), opening, closing: balanceOf(before), days }
}

const between = (before: Movements, after: Movements): Movements => {
  const totals: Totals = { ...noMovements }
  for (const name of movementNames) totals[name] = after[name] - before[name]
  return totals
}

/** The balance that all movements since the beginning leave. Assigned money counts as reserved, as in `Vault`. */
export const balanceOf = ({ free, ...totals }: Omit<DayEnd, "day">): StatementBalance => {
  const held = totals.deposits - totals.withdrawals - totals.claims
  const reserved = held - free
  const due = totals.earned - totals.refunded - totals.recovered - totals.claims
  return { held, free, reserved, waiting: due - reserved }
}
