import { type Comparison, figure, isReached, median, type Result } from "./Measure.ts"

/** A measure's name and what it found. */
export interface Found {
  readonly title: string
  readonly result: Result
}

/** The findings and ratios as two tables in Markdown, which people read in a terminal as well. */
export const print = ({ result, title }: Found): string =>
  [
    `### ${title}`,
    findings(result),
    ...(result.comparisons.length === 0 ? [] : [comparisons(result)]),
    ...result.remarks
  ].join("\n\n")

/** Every ratio of the run in one table. */
export const summary = (all: ReadonlyArray<Found>): string =>
  table(
    ["measure", "ratio or figure", "median", "from – to", "reach", ""],
    all.flatMap(({ result, title }) => result.comparisons.map((comparison) => [title, ...ratioCells(comparison)]))
  )

const findings = ({ findings }: Result): string => {
  const metrics = [...new Set(findings.flatMap(({ samples }) => samples.flatMap((sample) => Object.keys(sample))))]
  return table(
    ["", ...metrics],
    findings.map(({ contestant, samples }) => [
      contestant,
      ...metrics.map((metric) => spread(samples.flatMap((sample) => sample[metric] ?? [])))
    ])
  )
}

const comparisons = ({ comparisons }: Result): string =>
  table(["ratio or figure", "median", "from – to", "reach", ""], comparisons.map(ratioCells))

const ratioCells = (comparison: Comparison): ReadonlyArray<string> => {
  const { ratios, reach, what } = comparison
  const reached = isReached(comparison)
  return [
    what,
    figure(median(ratios)),
    `${figure(Math.min(...ratios))} – ${figure(Math.max(...ratios))}`,
    reach === undefined ? "" : `${reach.bound} ${reach.value}`,
    reached === undefined ? "" : reached ? "reached" : "missed"
  ]
}

/** The median, and by how much the samples lie apart. */
const spread = (values: ReadonlyArray<number>): string => {
  if (values.length === 0) return ""
  const middle = median(values)
  const half = (Math.max(...values) - Math.min(...values)) / 2
  return values.length === 1 ? figure(middle) : `${figure(middle)} ± ${figure(half)}`
}

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = head.map((cell, column) => Math.max(cell.length, 3, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: ReadonlyArray<string>) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...rows.map(line)].join("\n")
}
