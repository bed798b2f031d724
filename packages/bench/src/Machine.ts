import { Effect } from "effect"
import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs"
import { createRequire } from "node:module"
import { arch, cpus, platform, release, totalmem } from "node:os"
import { dirname, join } from "node:path"
import { performance } from "node:perf_hooks"
import { generateLoad } from "./Load.ts"
import { type Finding, formatFigure, InvalidRun, type Result, type Sample, verify } from "./Measure.ts"
import { connections, peer } from "./measures/Competitors.ts"
import { postInLoop } from "./measures/UndiciLoop.ts"
import { machineTicks } from "./Proc.ts"
import { Processes } from "./Processes.ts"
import { Server } from "./Server.ts"

/** What does not change during a run. */
export interface Machine {
  readonly processor: string
  readonly cores: number
  readonly memoryGiB: number
  readonly kernel: string
  readonly node: string
  /** Versions of the packages that the page names. */
  readonly packages: Readonly<Record<string, string>>
  /** PostgreSQL's version and settings, as `name = value`. */
  readonly postgres: ReadonlyArray<string>
}

/** The machine of this run. */
export const describe = Effect.gen(function*() {
  const server = yield* Server
  return {
    processor: cpus()[0]?.model.trim() ?? "?",
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: `${platform()} ${arch()} ${release()}`,
    node: process.versions.node,
    packages: Object.fromEntries(packages.map((name) => [name, versionOf(name)])),
    postgres: yield* server.describe
  } satisfies Machine
})

/** The machine as a list in Markdown. */
export const print = ({ cores, kernel, memoryGiB, node, packages, postgres, processor }: Machine): string =>
  [
    `- ${cores} × ${processor}, ${memoryGiB} GiB, ${kernel}`,
    `- Node ${node}; ${Object.entries(packages).map(([name, version]) => `${name} ${version}`).join(", ")}`,
    `- PostgreSQL: ${postgres.join(", ")}`
  ].join("\n")

/** How fast the machine was, before and after the measures, and how much of its time others got. */
export interface Speed {
  readonly findings: ReadonlyArray<Finding>
  /** The time that the hypervisor gave to other machines during the run, in percent of all cores. */
  readonly stolenPercent: number
}

/** Starts the bare servers and measures the first speed; the effect that is returned measures the second one. */
export const watchSpeed = Effect.fnUntraced(function*(millis: number) {
  const processes = yield* Processes
  const { dataDirectory } = yield* Server
  const bare = yield* processes.serve({ entry: peer("nodeHttp") })
  const receiver = yield* processes.serve({ entry: peer("receiver") })
  const ticks = machineTicks()

  const serve = Effect.fnUntraced(function*(millis: number) {
    const before = yield* bare.cpuMicros
    const next = () => ({ method: "GET" as const, path: "/health", headers: [] })
    const load = yield* generateLoad({
      baseUrls: [bare.baseUrl],
      connections,
      millis,
      // also where the machine stalls for longer than that
      atLeast: connections,
      next,
      expected: { status: 204 }
    })
    yield* verify("node:http: wrong responses", load.wrong, 0)
    return {
      "node:http requests/s": load.requests / load.seconds,
      "node:http CPU µs/request": ((yield* bare.cpuMicros) - before) / load.requests
    }
  })
  const send = Effect.fnUntraced(function*(millis: number) {
    const sent = yield* postInLoop([receiver.baseUrl], "{}", millis)
    yield* verify("undici: wrong responses", sent.wrong, 0)
    return {
      "undici requests/s": sent.requests / sent.seconds,
      "undici CPU µs/request": sent.cpuMicros / sent.requests
    }
  })
  const sample = Effect.gen(function*() {
    const fsync = yield* fsyncRate(dirname(dataDirectory), millis)
    return { ...fsync, ...yield* serve(millis), ...yield* send(millis) } satisfies Sample
  })

  // V8 compiles the code of both loops
  yield* Effect.andThen(serve(millis), send(millis))
  const first = yield* sample
  return Effect.gen(function*() {
    const second = yield* sample
    const now = machineTicks()
    return {
      findings: [
        { competitor: "before the run", samples: [first] },
        { competitor: "after the run", samples: [second] }
      ],
      stolenPercent: 100 * (now.stolen - ticks.stolen) / Math.max(1, now.total - ticks.total)
    } satisfies Speed
  })
})

/** The speed as a section of the page. */
export const speedResult = ({ findings, stolenPercent }: Speed): Result => ({
  findings,
  comparisons: [],
  remarks: [`Others got ${formatFigure(stolenPercent)} % of the machine's time during the run (steal).`]
})

/** A page of PostgreSQL. */
const pageBytes = 8_192

/** Rewrites a page and waits for the disk, one after the other, as pg_test_fsync does for fdatasync. */
const fsyncRate = (folder: string, millis: number): Effect.Effect<Sample, InvalidRun> =>
  Effect.try({
    try: () => {
      const path = join(folder, `bench-fsync-${process.pid}`)
      const file = openSync(path, "w")
      try {
        const page = Buffer.alloc(pageBytes, 1)
        const startedAt = performance.now()
        let count = 0
        do {
          writeSync(file, page, 0, pageBytes, 0)
          fdatasyncSync(file)
          count++
        } while (performance.now() - startedAt < millis)
        return { "fdatasync/s": count / ((performance.now() - startedAt) / 1_000) }
      } finally {
        closeSync(file)
        rmSync(path)
      }
    },
    catch: (error) => new InvalidRun({ message: `the disk of ${folder} cannot be measured: ${error}` })
  })

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
