import { maxStatementDays } from "@card-rewards/domain/Statement"
import { dayMillis } from "@card-rewards/domain/Time"
import { useState } from "react"
import { dateOf, startOfDate } from "../format/Time.ts"
import { useNow } from "../ui/useNow.ts"
import type { DayRange } from "./Statement.ts"

export const spanOptions = [
  ["7", "7 d"],
  ["30", "30 d"],
  ["90", "90 d"],
  ["365", "1 y"],
  ["own", "Other"]
] as const
type Span = (typeof spanOptions)[number][0]

/** The chosen range of days: the last ones up to the integrator's today, or one of the reader's own. */
export interface DayRangeChoice {
  readonly range: DayRange
  readonly span: Span
  readonly onSpan: (span: Span) => void
  /** What the fields of the own range show. */
  readonly typed: DayRange
  readonly onTyped: (typed: DayRange) => void
  readonly problem: string | undefined
}

export const useDayRange = (): DayRangeChoice => {
  const [span, setSpan] = useState<Span>("30")
  const [typed, setTyped] = useState<DayRange>({ from: "", to: "" })
  const [own, setOwn] = useState<DayRange>(typed)
  const last = useLastDays(Number(span === "own" ? "30" : span))
  const onSpan = (next: Span) => {
    setSpan(next)
    setTyped(last)
    setOwn(last)
  }
  const onTyped = (next: DayRange) => {
    setTyped(next)
    if (problemOf(next) === undefined) setOwn(next)
  }
  return { range: span === "own" ? own : last, span, onSpan, typed, onTyped, problem: problemOf(typed) }
}

/** So many days, the last of them the integrator's today. */
export const useLastDays = (days: number): DayRange => {
  const now = useNow()
  return { from: dateOf(now - (days - 1) * dayMillis), to: dateOf(now) }
}

const problemOf = ({ from, to }: DayRange): string | undefined => {
  const [first, last] = [startOfDate(from), startOfDate(to)]
  if (Number.isNaN(first) || Number.isNaN(last)) return "Two dates"
  if (last < first) return "A date after the first one"
  return last - first >= maxStatementDays * dayMillis ? `At most ${maxStatementDays} days` : undefined
}
