import { Effect } from "effect"
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Machine from "./Machine.ts"
import { printBusy } from "./OtherProcesses.ts"
import { plot, plotTimeSeries } from "./Plots.ts"
import { fileOf, type Run, type Section } from "./Run.ts"
import * as Table from "./Table.ts"

/** A run replaces the text between these two lines and keeps the rest of the page. */
const begin = "<!-- run: begin -->"
const end = "<!-- run: end -->"

/**
 * Writes a run into `performance.md` of this folder, in place of the previous run, and its plots into `performance/`,
 * beside the folder of all runs. Dies without a change where the page does not have the two lines that enclose a run.
 */
export const write = Effect.fn("Page.write")(function*(docs: string, run: Run) {
  const page = join(docs, "performance.md")
  const plots = join(docs, "performance")
  const text = readFileSync(page, "utf8")
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) return yield* Effect.die(new Error(`${page}: it has no ${begin} before an ${end}`))
  mkdirSync(plots, { recursive: true })
  for (const old of globSync("*.svg", { cwd: plots })) rmSync(join(plots, old))
  for (const { name, result, title } of run.sections) {
    writeFileSync(join(plots, `${name}.svg`), `${yield* plot(title, result)}\n`)
    const { timeSeries } = result
    if (timeSeries === undefined) continue
    writeFileSync(join(plots, timeSeriesFile(name)), `${yield* plotTimeSeries(title, timeSeries)}\n`)
  }
  const printed = [machine(run), "## Ratios", Table.summary(run.sections), ...run.sections.map(print)].join("\n\n")
  writeFileSync(page, `${text.slice(0, from + begin.length)}\n\n${printed}\n\n${text.slice(to)}`)
})

const print = (section: Section): string => {
  const { method, name, result, title } = section
  const plain = title.replaceAll("`", "")
  return [
    Table.print(section),
    method,
    `![${plain}](performance/${name}.svg)`,
    ...(result.timeSeries === undefined ? [] : [`![${plain}, over time](performance/${timeSeriesFile(name)})`])
  ].join("\n\n")
}

const timeSeriesFile = (name: string): string => `${name}-over-time.svg`

const machine = (run: Run): string =>
  [
    "## Machine and versions",
    [
      Machine.print(run.machine),
      `- ${run.startedAt.toISOString().slice(0, 10)}, all samples: [${fileOf(run)}](performance/runs/${fileOf(run)})`,
      ...(run.busy.length === 0 ? [] : [`- Other processes used the machine: ${printBusy(run.busy)}`])
    ].join("\n"),
    Table.print({ title: "Speed of the machine", result: Machine.speedResult(run.speed) })
  ].join("\n\n")
