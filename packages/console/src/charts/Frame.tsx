import { printTimestamp } from "@card-rewards/domain/Time"
import { AxisBottom, AxisLeft } from "@visx/axis"
import { scaleLinear, scaleUtc } from "@visx/scale"
import { type KeyboardEvent, type PointerEvent, type ReactNode, useState } from "react"
import { printCompact, printMoney } from "../format/Money.ts"
import { printMonth, printShortDay } from "../format/Time.ts"
import { useWidth } from "./useWidth.ts"

/** The values of a chart at an instant. */
export interface Reading {
  readonly title: string
  readonly rows: ReadonlyArray<{ readonly label: string; readonly color?: string; readonly value: string }>
}

export interface Scales {
  readonly x: (millis: number) => number
  readonly y: (value: number) => number
  readonly width: number
  readonly height: number
}

interface FrameProps {
  readonly label: string
  readonly from: number
  readonly to: number
  /** The greatest value drawn. */
  readonly max: number
  readonly height?: number
  /** Instants that the cursor can reach, ascending. */
  readonly instants: ReadonlyArray<number>
  readonly read: (index: number) => Reading
  readonly children: (scales: Scales, selected: number | undefined) => ReactNode
}

const margin = { top: 12, right: 12, bottom: 26, left: 46 }

/**
 * Axes, and a cursor that is moved with the pointer or the arrow keys. Assistive technology sees a slider over
 * time whose value is the reading at the cursor; a table below has the same numbers.
 */
export const Frame = (props: FrameProps) => {
  const { instants, label, read } = props
  const [ref, width] = useWidth()
  const [selected, setSelected] = useState<number>()
  const last = instants.length - 1
  const current = selected === undefined ? undefined : Math.min(selected, last)
  const reading = read(current ?? last)
  const press = (event: KeyboardEvent) => {
    const moved = move(event.key, current ?? last, last)
    if (moved === undefined) return
    event.preventDefault()
    setSelected(moved)
  }
  return (
    <div className="chart" ref={ref}>
      <div
        className="chart-plot"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={current ?? last}
        aria-valuetext={spoken(reading)}
        onKeyDown={press}
        onBlur={() => setSelected(undefined)}
      >
        {width > 0 && <Plot {...props} outerWidth={width} current={current} onSelect={setSelected} />}
      </div>
      <ReadingLine reading={reading} isSelected={current !== undefined} />
    </div>
  )
}

/** The drawing: grid lines, the chart itself, the cursor and the axes. */
const Plot = ({
  children,
  current,
  from,
  height = 240,
  instants,
  max,
  onSelect,
  outerWidth,
  to
}: FrameProps & {
  readonly outerWidth: number
  readonly current: number | undefined
  readonly onSelect: (index: number | undefined) => void
}) => {
  const width = Math.max(0, outerWidth - margin.left - margin.right)
  const inner = height - margin.top - margin.bottom
  const x = scaleUtc<number>({ domain: [from, to], range: [0, width] })
  const y = scaleLinear<number>({ domain: [0, max === 0 ? 1 : max * 1.08], range: [inner, 0] })
  const point = (event: PointerEvent<SVGElement>) => {
    const at = x.invert(event.clientX - event.currentTarget.getBoundingClientRect().left - margin.left).getTime()
    onSelect(nearest(instants, at))
  }
  const cursor = current === undefined ? undefined : x(instants[current] ?? from)
  return (
    <svg
      width={outerWidth}
      height={height}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={() => onSelect(undefined)}
      aria-hidden
    >
      <g transform={`translate(${margin.left},${margin.top})`}>
        {y.ticks(4).map((tick) => (
          <line key={tick} className="grid" x1={0} x2={width} y1={y(tick)} y2={y(tick)} />
        ))}
        {children({ x: (at) => x(at), y: (value) => y(value), width, height: inner }, current)}
        {cursor !== undefined && <line className="cursor" x1={cursor} x2={cursor} y1={0} y2={inner} />}
        <AxisLeft
          scale={y}
          numTicks={4}
          hideAxisLine
          hideTicks
          tickFormat={(value) => printCompact(Number(value))}
          tickClassName="tick"
          tickLabelProps={{ className: "tick-label", textAnchor: "end", dx: -4, dy: "0.3em" }}
        />
        <AxisBottom
          top={inner}
          scale={x}
          numTicks={Math.max(2, Math.floor(width / 96))}
          hideTicks
          axisLineClassName="axis"
          tickFormat={dateLabel(from, to)}
          tickLabelProps={{ className: "tick-label", textAnchor: "middle", dy: "0.4em" }}
        />
      </g>
    </svg>
  )
}

/** The values at the cursor, or the latest ones. */
const ReadingLine = ({ isSelected, reading }: { readonly reading: Reading; readonly isSelected: boolean }) => (
  <div className="reading" data-selected={isSelected} aria-hidden>
    <span className="reading-title">{reading.title}</span>
    {reading.rows.map((row) => (
      <span key={row.label} className="reading-row">
        {row.color !== undefined && <i className={`swatch ${row.color}`} />}
        <span>{row.label}</span>
        <b>{row.value}</b>
      </span>
    ))}
  </div>
)

const spoken = (reading: Reading): string =>
  `${reading.title}: ${reading.rows.map((row) => `${row.label} ${row.value}`).join(", ")}`

const nearest = (instants: ReadonlyArray<number>, at: number): number =>
  instants.reduce(
    (best, instant, index) => (Math.abs(instant - at) < Math.abs((instants[best] ?? 0) - at) ? index : best),
    0
  )

const move = (key: string, index: number, last: number): number | undefined => {
  switch (key) {
    case "ArrowLeft":
    case "ArrowDown":
      return Math.max(0, index - 1)
    case "ArrowRight":
    case "ArrowUp":
      return Math.min(last, index + 1)
    case "PageDown":
      return Math.max(0, index - 10)
    case "PageUp":
      return Math.min(last, index + 10)
    case "Home":
      return 0
    case "End":
      return last
    default:
      return undefined
  }
}

const dateLabel = (from: number, to: number) => (value: Date | number | { valueOf: () => number }) => {
  const millis = value.valueOf()
  const days = (to - from) / 86_400_000
  if (days < 3) return printTimestamp(millis).slice(11, 16)
  return days > 400 ? printMonth(millis) : printShortDay(millis)
}

/** Formats amounts for an axis and a reading. */
export const moneyRow = (label: string, color: string, amount: bigint, unit: string) => ({
  label,
  color,
  value: printMoney(amount, unit)
})
