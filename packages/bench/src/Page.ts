import { Effect } from "effect"
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { arch, cpus, platform, release, totalmem } from "node:os"
import { join } from "node:path"
import type { Result } from "./Measure.ts"
import { plot, plotTimeSeries } from "./Plots.ts"
import * as Table from "./Table.ts"

/** A measure with its result, as the page prints it. */
export interface Section {
  readonly name: string
  readonly title: string
  readonly method: string
  readonly result: Result
}

/** A run replaces the text between these two lines and keeps the rest of the page. */
const begin = "<!-- run: begin -->"
const end = "<!-- run: end -->"

/**
 * Writes a run into `performance.md` of this folder, in place of the previous run, and its plots into `performance/`.
 * Dies without a change where the page does not have the two lines that enclose a run.
 */
export const write = Effect.fn("Page.write")(function*(
  docs: string,
  sections: ReadonlyArray<Section>,
  postgres: ReadonlyArray<string>
) {
  const page = join(docs, "performance.md")
  const plots = join(docs, "performance")
  const text = readFileSync(page, "utf8")
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) return yield* Effect.die(new Error(`${page}: it has no ${begin} before an ${end}`))
  rmSync(plots, { recursive: true, force: true })
  mkdirSync(plots, { recursive: true })
  for (const { name, result, title } of sections) {
    writeFileSync(join(plots, `${name}.svg`), `${yield* plot(title, result)}\n`)
    const { timeSeries } = result
    if (timeSeries === undefined) continue
    writeFileSync(join(plots, timeSeriesFile(name)), `${yield* plotTimeSeries(title, timeSeries)}\n`)
  }
  const run = [machine(postgres), "## Ratios", Table.summary(sections), ...sections.map(print)].join("\n\n")
  writeFileSync(page, `${text.slice(0, from + begin.length)}\n\n${run}\n\n${text.slice(to)}`)
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

const machine = (postgres: ReadonlyArray<string>): string =>
  [
    "## Machine and versions",
    `- ${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, ` +
    `${platform()} ${arch()} ${release()}`,
    `- Node ${process.versions.node}; ${packages.map((name) => `${name} ${versionOf(name)}`).join(", ")}`,
    `- PostgreSQL: ${postgres.join(", ")}`,
    `- ${new Date().toISOString().slice(0, 10)}`
  ].join("\n").replace("versions\n", "versions\n\n")

/** Packages whose versions the page names. */
const packages = ["effect", "fastify", "pg", "graphile-worker", "pg-boss", "undici"]

const require = createRequire(import.meta.url)

const versionOf = (name: string): string => {
  const paths = require.resolve.paths(name) ?? []
  for (const path of paths) {
    try {
      const manifest: { readonly version: string } = JSON.parse(readFileSync(join(path, name, "package.json"), "utf8"))
      return manifest.version
    } catch {
      continue
    }
  }
  return "?"
}
