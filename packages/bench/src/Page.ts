import { Effect } from "effect"
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { arch, cpus, platform, release, totalmem } from "node:os"
import { join } from "node:path"
import type { Result } from "./Measure.ts"
import { plot, plotCourse } from "./Plots.ts"
import * as Table from "./Table.ts"

/** A measure as the page shows it. */
export interface Section {
  readonly name: string
  readonly title: string
  readonly method: string
  readonly result: Result
}

/** What stands on the page between these lines is a run's; the rest is kept. */
const begin = "<!-- run: begin -->"
const end = "<!-- run: end -->"

/** Writes a run into `docs/performance.md` in place of the one before, and its plots beside it. */
export const write = Effect.fn("Page.write")(function*(
  docs: string,
  sections: ReadonlyArray<Section>,
  postgres: ReadonlyArray<string>
) {
  const page = join(docs, "performance.md")
  const plots = join(docs, "performance")
  const text = readFileSync(page, "utf8")
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) return yield* Effect.die(new Error(`${page}: no room between ${begin} and ${end}`))
  rmSync(plots, { recursive: true, force: true })
  mkdirSync(plots, { recursive: true })
  for (const { name, result, title } of sections) {
    writeFileSync(join(plots, `${name}.svg`), `${yield* plot(title, result)}\n`)
    const { course } = result
    if (course !== undefined) writeFileSync(join(plots, courseFile(name)), `${yield* plotCourse(title, course)}\n`)
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
    ...(result.course === undefined ? [] : [`![${plain}, over time](performance/${courseFile(name)})`])
  ].join("\n\n")
}

const courseFile = (name: string): string => `${name}-over-time.svg`

const machine = (postgres: ReadonlyArray<string>): string =>
  [
    "## Machine and versions",
    `- ${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, ` +
    `${platform()} ${arch()} ${release()}`,
    `- Node ${process.versions.node}; ${peers.map((name) => `${name} ${versionOf(name)}`).join(", ")}`,
    `- PostgreSQL: ${postgres.join(", ")}`,
    `- ${new Date().toISOString().slice(0, 10)}`
  ].join("\n").replace("versions\n", "versions\n\n")

const peers = ["effect", "fastify", "pg", "graphile-worker", "pg-boss", "undici"]

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
