import { Effect, Exit } from "effect"
import { assert, describe, it } from "@effect/vitest"
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import type { Result } from "../src/Measure.ts"
import * as Page from "../src/Page.ts"
import { fileOf, type Run, type Section, write } from "../src/Run.ts"

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

const section = (name: string, result: Result): Section => ({
  name,
  title: `Title of ${name} with \`code\``,
  method: `Method of ${name}.`,
  result
})

const { timeSeries: _, ...withoutTimeSeries } = result
const sections = [section("first", result), section("second", withoutTimeSeries)]

const machine = {
  processor: "EPYC",
  cores: 2,
  memoryGiB: 24,
  kernel: "linux",
  node: "24.21.0",
  packages: { effect: "4.1.0" },
  postgres: ["server_version = 18.4"]
}

const runOf = (sections: ReadonlyArray<Section>): Run => ({
  startedAt: new Date("2026-11-23T20:30:15.123Z"),
  commit: { id: "e8c46fe", isChanged: false },
  flags: { rounds: 2 },
  machine,
  speed: { findings: [{ competitor: "before the run", samples: [{ "fdatasync/s": 1_234.5678 }] }], stolenPercent: 2.5 },
  busy: [{ pid: 1_234_567, command: "node tsc", cores: 0.75, seconds: 4 }],
  sections
})

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
      const other = { ...machine, postgres: ["server_version = 0"] }
      yield* Page.write(folder, { ...runOf([section("earlier", result)]), machine: other })
      yield* Page.write(folder, runOf(sections))
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
      assert.include(run, "node tsc (1234567) 0.75 cores for 4 s")
      assert.include(run, "Others got 2.5 % of the machine's time")
    }).pipe(Effect.scoped))

  it.effect("has a plot of each measure and of each time series", () =>
    Effect.gen(function*() {
      const folder = yield* docs
      const kept = yield* write(join(folder, "performance/runs"), runOf(sections))
      yield* Page.write(folder, runOf([section("earlier", result)]))
      yield* Page.write(folder, runOf(sections))
      assert.isTrue(existsSync(kept))
      const page = readFileSync(join(folder, "performance.md"), "utf8")
      const plots = ["first-over-time.svg", "first.svg", "second.svg"]
      assert.deepStrictEqual(readdirSync(join(folder, "performance")).toSorted(), [...plots, "runs"].toSorted())
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
        const exit = yield* Effect.exit(Page.write(folder, runOf(sections)))
        assert.isTrue(Exit.isFailure(exit))
        assert.strictEqual(readFileSync(page, "utf8"), text)
      }
    }).pipe(Effect.scoped))
})

describe("the file of a run", () => {
  it.effect("has every sample, each comparison with its outcome, the machine and what disturbed it", () =>
    Effect.gen(function*() {
      const folder = mkdtempSync(join(tmpdir(), "bench-run-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      const run = runOf(sections)
      const path = yield* write(join(folder, "runs"), run)
      assert.strictEqual(path, join(folder, "runs", "2026-11-23T203015Z.json"))
      assert.strictEqual(fileOf(run), "2026-11-23T203015Z.json")
      const kept = JSON.parse(readFileSync(path, "utf8"))
      assert.deepStrictEqual(kept.commit, run.commit)
      assert.deepStrictEqual(kept.machine, machine)
      assert.deepStrictEqual(kept.busy, run.busy)
      assert.deepStrictEqual(kept.measures.map(({ name }: Section) => name), ["first", "second"])
      assert.deepStrictEqual(kept.measures[0].findings, result.findings)
      assert.deepStrictEqual(kept.measures[0].comparisons, [{ ...result.comparisons[0], median: 2, isMet: false }])
      assert.deepStrictEqual(kept.speed.findings[0].samples, [{ "fdatasync/s": 1_234.6 }])
    }).pipe(Effect.scoped))
})
