import { type Comparison, formatFigure, isTargetMet, median, type Result } from "./Measure.ts"

/** A measure's title and its result. */
export interface TitledResult {
  readonly title: string
  readonly result: Result
}

/** The findings and the comparisons as two tables in Markdown, which also read well in a terminal. */
export const print = ({ result, title }: TitledResult): string =>
  [
    `### ${title}`,
    printFindings(result),
    ...(result.comparisons.length === 0 ? [] : [printComparisons(result)]),
    ...result.remarks
  ].join("\n\n")

/** The comparisons of all measures in one table. */
export const summary = (all: ReadonlyArray<TitledResult>): string =>
  table(
    ["measure", ...comparisonHead],
    all.flatMap(({ result, title }) => result.comparisons.map((comparison) => [title, ...comparisonCells(comparison)]))
  )

const printFindings = ({ findings }: Result): string => {
  const metrics = [...new Set(findings.flatMap(({ samples }) => samples.flatMap((sample) => Object.keys(sample))))]
  return table(
    ["", ...metrics],
    findings.map(({ competitor, samples }) => [
      competitor,
      ...metrics.map((metric) => medianAndSpread(samples.flatMap((sample) => sample[metric] ?? [])))
    ])
  )
}

const comparisonHead = ["ratio or figure", "median", "from – to", "target", ""]

const printComparisons = ({ comparisons }: Result): string => table(comparisonHead, comparisons.map(comparisonCells))

const comparisonCells = (comparison: Comparison): ReadonlyArray<string> => {
  const { name, target, values } = comparison
  const isMet = isTargetMet(comparison)
  return [
    name,
    formatFigure(median(values)),
    `${formatFigure(Math.min(...values))} – ${formatFigure(Math.max(...values))}`,
    target === undefined ? "" : `${target.bound} ${target.value}`,
    isMet === undefined ? "" : isMet ? "met" : "missed"
  ]
}

/** The median, and half of the distance between the lowest and the highest value. */
const medianAndSpread = (values: ReadonlyArray<number>): string => {
  if (values.length === 0) return ""
  const middle = median(values)
  const half = (Math.max(...values) - Math.min(...values)) / 2
  return values.length === 1 ? formatFigure(middle) : `${formatFigure(middle)} ± ${formatFigure(half)}`
}

const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = head.map((cell, column) => Math.max(cell.length, 3, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: ReadonlyArray<string>) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...rows.map(line)].join("\n")
}
