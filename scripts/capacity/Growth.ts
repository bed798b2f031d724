import { type Built, type Day, day, type Figures, type Load, type Machines, type Need, need, stepOf } from "./Model.ts"

/** A service that grows. */
export interface Growth {
  readonly months: number
  readonly firstEventsPerSecond: number
  /** How much more each month is than the one before. */
  readonly factorPerMonth: number
  /** How long rows are kept; the service itself removes none. */
  readonly retentionMonths: number
}

export interface Month {
  readonly month: number
  readonly load: Load
  readonly need: Need
  /** Everything that is kept. */
  readonly diskBytes: number
  readonly step: number
  readonly databases: number
  /** A day of this month if nothing had been added since the first one. */
  readonly unchanged: Day
}

/** Month by month: what the load needs, and what would happen on the machines of the first month. */
export const grow = (
  figures: Figures,
  machines: Machines,
  load: Omit<Load, "eventsPerSecond">,
  growth: Growth
): ReadonlyArray<Month> => {
  const months: Array<Month> = []
  let diskBytes = 0
  let built: Built | undefined
  for (let month = 1; month <= growth.months; month++) {
    const eventsPerSecond = growth.firstEventsPerSecond * growth.factorPerMonth ** (month - 1)
    const present: Load = { ...load, eventsPerSecond }
    const needed = need(figures, machines, present)
    const removed = months[month - 1 - growth.retentionMonths]?.need.diskBytesPerMonth ?? 0
    diskBytes += needed.diskBytesPerMonth - removed
    built ??= needed
    months.push({
      month,
      load: present,
      need: needed,
      diskBytes,
      ...stepOf(machines, needed, diskBytes),
      unchanged: day(figures, present, built)
    })
  }
  return months
}
