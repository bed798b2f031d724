import { Field } from "../ui/Field.tsx"
import { Segments } from "../ui/Segments.tsx"
import { type DayRangeChoice, spanOptions } from "./useDayRange.ts"

/** Chooses the days that a page shows. */
export const RangeChoice = ({ choice }: { readonly choice: DayRangeChoice }) => (
  <>
    <Segments label="Span" value={choice.span} onChange={choice.onSpan} options={spanOptions} />
    {choice.span === "own" && <OwnRange choice={choice} />}
  </>
)

const OwnRange = ({ choice: { onTyped, problem, typed } }: { readonly choice: DayRangeChoice }) => (
  <div className="form-row inline range">
    <Field label="From (UTC)" type="date" value={typed.from} onChange={(from) => onTyped({ ...typed, from })} />
    <Field
      label="To (UTC)"
      type="date"
      value={typed.to}
      onChange={(to) => onTyped({ ...typed, to })}
      problems={problem === undefined ? [] : [problem]}
    />
  </div>
)
