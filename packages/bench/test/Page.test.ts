import { Effect, Exit } from "effect"
import { assert, describe, it } from "@effect/vitest"
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import type { Result } from "../src/Measure.ts"
import * as Page from "../src/Page.ts"

const committed = resolve(import.meta.dirname, "../../../docs/performance.md")

const result: Result = {
  findings: [
    { competitor: "this", samples: [{ "events/s": 1_000, "p50 ms": 3 }, { "events/s": 1_200, "p50 ms": 2 }] },
    { competitor: "that", samples: [{ "events/s": 500 }, { "events/s": 600 }] }
  ],
  comparisons: [{ name: "events/s: this / that", values: [2, 2], target: { bound: "at least", value: 3 } }],
  remarks: ["CPU is the bottleneck."],
  timeSeries: { metric: "MiB", points: [0, 1].map((second) => ({ competitor: "this", second, value: 100 })) }
}

const section = (name: string, result: Result): Page.Section => ({
  name,
  title: `Title of ${name} with \`code\``,
  method: `Method of ${name}.`,
  result
})

const { timeSeries: _, ...withoutTimeSeries } = result
const sections = [section("first", result), section("second", withoutTimeSeries)]

const count = (text: string, part: string): number => text.split(part).length - 1

describe("the page", () => {
  const docs = Effect.acquireRelease(
    Effect.sync(() => {
      const folder = mkdtempSync(join(tmpdir(), "bench-page-"))
      copyFileSync(committed, join(folder, "performance.md"))
      return folder
    }),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
  )

  it.effect("has the last run alone, and keeps the text around it", () =>
    Effect.gen(function*() {
      const folder = yield* docs
      yield* Page.write(folder, [section("earlier", result)], ["server_version = 0"])
      yield* Page.write(folder, sections, ["server_version = 18.4"])
      const page = readFileSync(join(folder, "performance.md"), "utf8")
      const [before = "", after = ""] = readFileSync(committed, "utf8").split(/<!-- run: begin -->[^]*<!-- run: end/)
      assert.isTrue(page.startsWith(`${before}<!-- run: begin -->\n\n`))
      assert.isTrue(page.endsWith(`\n\n<!-- run: end${after}`))
      const run = page.slice(before.length, page.length - after.length)
      assert.notInclude(run, "earlier")
      assert.notInclude(run, "server_version = 0")
      for (const text of ["<!-- run: begin -->", "<!-- run: end -->", "server_version = 18.4", "## Machine"]) {
        assert.strictEqual(count(page, text), 1, text)
      }
      for (const { method, title } of sections) {
        assert.strictEqual(count(run, `### ${title}\n`), 1, title)
        assert.strictEqual(count(run, method), 1, method)
      }
      // once in the table of all comparisons and once in that of its measure
      assert.strictEqual(count(run, "missed"), 2 * sections.length)
      assert.strictEqual(count(run, "CPU is the bottleneck."), sections.length)
      assert.include(run, "1,100 ± 100")
    }).pipe(Effect.scoped))

  it.effect("has a plot of each measure and of each time series", () =>
    Effect.gen(function*() {
      const folder = yield* docs
      yield* Page.write(folder, [section("earlier", result)], [])
      yield* Page.write(folder, sections, [])
      const page = readFileSync(join(folder, "performance.md"), "utf8")
      const plots = ["first-over-time.svg", "first.svg", "second.svg"]
      assert.deepStrictEqual(readdirSync(join(folder, "performance")).toSorted(), plots)
      for (const plot of plots) {
        assert.strictEqual(count(page, `(performance/${plot})`), 1, plot)
        const svg = readFileSync(join(folder, "performance", plot), "utf8")
        assert.match(svg, /^<svg[^]*<\/svg>\s*$/)
        assert.include(svg, "with code")
        assert.notInclude(svg, "NaN")
      }
    }).pipe(Effect.scoped))

  it.effect("stays as it is without the two lines that enclose a run", () =>
    Effect.gen(function*() {
      const folder = yield* docs
      const page = join(folder, "performance.md")
      for (const text of ["# Performance\n", "<!-- run: end --> <!-- run: begin -->"]) {
        writeFileSync(page, text)
        const exit = yield* Effect.exit(Page.write(folder, sections, []))
        assert.isTrue(Exit.isFailure(exit))
        assert.strictEqual(readFileSync(page, "utf8"), text)
      }
    }).pipe(Effect.scoped))
})
