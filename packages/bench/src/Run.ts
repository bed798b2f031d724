import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type * as Machine from "./Machine.ts"
import { isTargetMet, median, type Result } from "./Measure.ts"
import type { BusyProcess } from "./OtherProcesses.ts"

/** A measure with its result, as the page prints it. */
export interface Section {
  readonly name: string
  readonly title: string
  readonly method: string
  readonly result: Result
}

/** One run of the bench. */
export interface Run {
  readonly startedAt: Date
  readonly commit: Commit | undefined
  readonly flags: Readonly<Record<string, unknown>>
  readonly machine: Machine.Machine
  readonly speed: Machine.Speed
  /** Processes that disturbed it. */
  readonly busy: ReadonlyArray<BusyProcess>
  readonly sections: ReadonlyArray<Section>
}

interface Commit {
  readonly id: string
  /** Whether files differed from the commit. */
  readonly isChanged: boolean
}

/** The commit of a checkout; undefined where there is no git. */
export const commitOf = (root: string): Commit | undefined => {
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()
  try {
    return { id: git("rev-parse", "HEAD"), isChanged: git("status", "--porcelain") !== "" }
  } catch {
    return undefined
  }
}

/** The name of a run's file: its start in UTC. */
export const fileOf = ({ startedAt }: Run): string =>
  `${startedAt.toISOString().slice(0, 19).replaceAll(":", "")}Z.json`

/** Writes a run into a folder as JSON and returns the path: every sample, without points over time. */
export const write = (folder: string, run: Run): Effect.Effect<string> =>
  Effect.sync(() => {
    mkdirSync(folder, { recursive: true })
    const path = join(folder, fileOf(run))
    writeFileSync(path, `${JSON.stringify(content(run), significant)}\n`)
    return path
  })

const content = ({ busy, commit, flags, machine, sections, speed, startedAt }: Run) => ({
  startedAt: startedAt.toISOString(),
  commit,
  flags,
  machine,
  speed,
  busy,
  measures: sections.map(({ name, result: { comparisons, findings, remarks } }) => ({
    name,
    findings,
    comparisons: comparisons.map((comparison) => ({
      ...comparison,
      median: median(comparison.values),
      isMet: isTargetMet(comparison)
    })),
    remarks
  }))
})

/** Numbers with five significant digits, but integers as they are: counts, times and process ids. */
const significant = (_: string, value: unknown): unknown =>
  typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value
