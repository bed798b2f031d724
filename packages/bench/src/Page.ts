import { Effect } from "effect"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { arch, cpus, platform, release, totalmem } from "node:os"
import { join } from "node:path"
import type { Result } from "./Measure.ts"
import { plot } from "./Plots.ts"
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

/** Writes a run into `docs/performance.md`, and its plots beside it. */
export const write = Effect.fn("Page.write")(function*(
  docs: string,
  sections: ReadonlyArray<Section>,
  postgres: ReadonlyArray<string>
) {
  const page = join(docs, "performance.md")
  const plots = join(docs, "performance")
  mkdirSync(plots, { recursive: true })
  for (const { name, result, title } of sections) {
    writeFileSync(join(plots, `${name}.svg`), `${yield* plot(title, result)}\n`)
  }
  const run = [machine(postgres), "## Ratios", Table.summary(sections), ...sections.map(print)].join("\n\n")
  const text = readFileSync(page, "utf8")
  const before = text.slice(0, text.indexOf(begin) + begin.length)
  const after = text.slice(text.indexOf(end))
  writeFileSync(page, `${before}\n\n${run}\n\n${after}`)
})

const print = (section: Section): string =>
  [
    Table.print(section),
    section.method,
    `![${section.title.replaceAll("`", "")}](performance/${section.name}.svg)`
  ].join("\n\n")

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
