/**
 * `npm test`: runs every check that must pass before a commit. `-- --seeds 50` sets TEST_SEEDS for the property tests;
 * all other arguments are passed to vitest.
 */
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import * as os from "node:os"
import * as path from "node:path"
import { closingLines, type Results } from "./check/ClosingLines.ts"

interface Step {
  readonly name: string
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
}

const root = path.dirname(import.meta.dirname)
const require = createRequire(import.meta.url)

const main = async (): Promise<number> => {
  const { seeds, rest } = readArguments(process.argv.slice(2))
  const scratch = mkdtempSync(path.join(os.tmpdir(), "card-rewards-check-"))
  const results = path.join(scratch, "results.json")
  try {
    for (const step of staticSteps()) {
      const code = await run(step)
      if (code !== 0) return code
    }
    const code = await run(testStep(rest, results, seeds))
    printClosingLines(results, code)
    return code
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

const staticSteps = (): ReadonlyArray<Step> => [
  types("types", "tsconfig.json"),
  types("types of the console", "packages/console/tsconfig.json"),
  { name: "lint", command: "node_modules/.bin/oxlint", args: ["--deny-warnings", "--quiet"] },
  script("tidy", "scripts/tidy.ts"),
  script("bundles", "packages/bundle/src/main.ts"),
  script("generated files", "scripts/generate.ts", "--check"),
  // In CI alone: it needs the network, and an advisory may appear without any change here.
  ...(process.env["CI"] === undefined ? [] : [audit()])
]

/**
 * TypeScript's own compiler with the Effect diagnostics built in, for exactly the version that is installed. More of
 * its checkers than processors would check much of the same twice; what has not changed since the last run is not
 * checked again.
 */
const types = (name: string, project: string): Step => {
  const known = path.join("node_modules/.cache/card-rewards", `${name.replaceAll(" ", "-")}.tsbuildinfo`)
  const args = ["--noEmit", "--checkers", "2", "--incremental", "--tsBuildInfoFile", known, "--project", project]
  return { name, command: effectTypeScript(), args }
}

/** Through the proxy that `HTTPS_PROXY` names, as npm. */
const audit = (): Step => ({
  ...script("audit of dependencies", "scripts/auditDependencies.ts"),
  env: { NODE_USE_ENV_PROXY: "1" }
})

const testStep = (args: ReadonlyArray<string>, results: string, seeds: string | undefined): Step => ({
  ...script(
    "tests",
    "node_modules/vitest/vitest.mjs",
    "run",
    "--config",
    "vitest.workspace.ts",
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${results}`,
    ...args
  ),
  env: seeds === undefined ? {} : { TEST_SEEDS: seeds }
})

const script = (name: string, file: string, ...args: ReadonlyArray<string>): Step =>
  ({ name, command: process.execPath, args: [file, ...args] })

const effectTypeScript = (): string => {
  const tsgo = path.dirname(require.resolve("@effect/tsgo/package.json"))
  const { version } = readJson<{ version: string }>(require.resolve("typescript/package.json"))
  const packageDir = path.dirname(
    createRequire(path.join(tsgo, "package.json")).resolve(
      `@effect/tsgo-${process.platform}-${process.arch}/package.json`
    )
  )
  return path.join(packageDir, "artifacts/typescript", version, "tsc")
}

const run = (step: Step): Promise<number> =>
  new Promise((resolve) => {
    process.stdout.write(`── ${step.name}\n`)
    const startedAt = performance.now()
    const child = spawn(
      step.command,
      step.args,
      { cwd: root, env: { ...process.env, ...step.env }, stdio: ["ignore", "inherit", "inherit"] }
    )
    const stop = () => void child.kill("SIGTERM")
    process.once("SIGINT", stop).once("SIGTERM", stop)
    child.once("error", (error) => {
      process.stderr.write(`${step.name}: ${error.message}\n`)
      resolve(1)
    })
    child.once("exit", (code) => {
      process.off("SIGINT", stop).off("SIGTERM", stop)
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
      process.stdout.write(`── ${step.name}: ${code === 0 ? "ok" : "failed"} in ${seconds} s\n\n`)
      resolve(code ?? 1)
    })
  })

const readArguments = (args: ReadonlyArray<string>): { seeds: string | undefined; rest: ReadonlyArray<string> } => {
  const at = args.findIndex((arg) => arg === "--seeds" || arg.startsWith("--seeds="))
  const given = args[at]
  if (given === undefined) return { seeds: undefined, rest: args }
  const inline = given.split("=")[1]
  return { seeds: inline ?? args[at + 1], rest: args.toSpliced(at, inline === undefined ? 2 : 1) }
}

/** Vitest writes no results where it does not come to its end. */
const printClosingLines = (file: string, code: number): void => {
  if (existsSync(file)) process.stdout.write(closingLines(readJson<Results>(file), code))
}

const readJson = <A>(file: string): A => JSON.parse(readFileSync(file, "utf8"))

process.exitCode = await main()
