import type { Asset } from "@card-rewards/domain/Money"
import { movementNames, type Movements, type Statement } from "@card-rewards/domain/Statement"
import { dayMillis } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import { startOfDate } from "../format/Time.ts"
import type { Api } from "../session/Session.ts"

/** A day of a statement. */
export type StatementDay = Statement["days"][number]

/** UTC dates, both inclusive. */
export interface DayRange {
  readonly from: string
  readonly to: string
}

/**
 * Reads a statement, or reads on from one of the same asset and range: its last day may have been open, and later ones
 * follow; the days before never change.
 */
export const readStatement = (api: Api, asset: Asset, { from, to }: DayRange, known?: Statement) =>
  Effect.gen(function* () {
    const last = known?.days.at(-1)
    if (known === undefined || last === undefined) {
      return (yield* api.statements.get({ params: { asset }, query: { from, to } })).statement
    }
    const { statement: tail } = yield* api.statements.get({ params: { asset }, query: { from: last.date, to } })
    return { ...known, closing: tail.closing, days: [...known.days.slice(0, -1), ...tail.days] }
  })

/** Whether the statement shows no money at all: there was none at the end of any day, and none moved within one. */
export const isEmpty = ({ days, opening }: Statement): boolean =>
  [opening, ...days.map(({ closing }) => closing)].every(({ held, waiting }) => held === 0n && waiting === 0n) &&
  days.every((day) => movementNames.every((name) => day[name] === 0n))

/** The sum of a movement over days. */
export const sum = (days: ReadonlyArray<Movements>, movement: keyof Movements): bigint =>
  days.reduce((total, day) => total + day[movement], 0n)

/** How long free money lasts at the recent rate of spending. */
export interface Runway {
  /** Days over which the rate is averaged. */
  readonly days: number
  /** What rewards take per day, in smallest units. */
  readonly perDay: bigint
  /** When free money is used up; undefined beyond ten years. */
  readonly until: number | undefined
}

/** From the days of a statement since the first reward in it. Undefined where rewards took nothing. */
export const runway = ({ days }: Statement, free: bigint, now: number): Runway | undefined => {
  const first = days.findIndex(({ earned }) => earned > 0n)
  const spending = first === -1 ? [] : days.slice(first)
  const [day] = spending
  const taken = sum(spending, "earned") - sum(spending, "refunded") - sum(spending, "recovered")
  if (day === undefined || taken <= 0n) return undefined
  const count = Math.max(1, Math.ceil((now - startOfDate(day.date)) / dayMillis))
  const perDay = taken / BigInt(count)
  const millis = perDay === 0n ? Infinity : (Number((free * 1_000n) / perDay) / 1_000) * dayMillis
  return { days: count, perDay, until: millis > 3_650 * dayMillis ? undefined : now + millis }
}
