import { assert, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join, resolve } from "node:path"

const root = resolve(import.meta.dirname, "../../..")

/** An entry that lives until it is told to stop, and says so. */
const entry = `
process.on("SIGTERM", () => { console.log("stopped"); process.exit(0) })
setInterval(() => {}, 1000)
console.log("started")
`

/** A checkout with nothing installed, where installing takes no time. */
const checkout = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = fs.mkdtempSync(join(tmpdir(), "card-rewards-bootstrap-"))
    const write = (file: string, text: string, mode = 0o644) => {
      fs.mkdirSync(join(folder, file, ".."), { recursive: true })
      fs.writeFileSync(join(folder, file), text, { mode })
    }
    write("package.json", JSON.stringify({ scripts: { start: "node scripts/bootstrap.mjs scripts/entry.mjs" } }))
    fs.mkdirSync(join(folder, "packages"))
    for (const file of ["scripts/bootstrap.mjs", "scripts/lifeline.mjs"]) {
      write(file, fs.readFileSync(join(root, file), "utf8"))
    }
    write("scripts/entry.mjs", entry)
    write("bin/npx", "#!/bin/sh\nexit 0\n", 0o755)
    return folder
  }),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true }))
)

it.live("a start that installed first ends as any other when npm is killed", () =>
  Effect.gen(function*() {
    const folder = yield* checkout
    // the folder has no Node of its own: it takes the one that runs this
    const path = [join(folder, "bin"), dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter)
    const env = { ...process.env, PATH: path }
    const npm = yield* Effect.acquireRelease(
      Effect.sync(() => spawn("npm", ["run", "--silent", "start"], { cwd: folder, env })),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    let output = ""
    for (const stream of [npm.stdout, npm.stderr]) stream.on("data", (chunk) => output += chunk)
    const prints = (line: string) =>
      Effect.sync(() => output).pipe(
        Effect.filterOrFail((text) => text.includes(line), () => `${line} is not in ${output}`),
        Effect.retry(Schedule.spaced("20 millis").pipe(Schedule.upTo({ duration: "60 seconds" })))
      )
    yield* prints("started")
    const ended = once(npm, "close")
    npm.kill("SIGKILL")
    yield* prints("stopped")
    yield* Effect.promise(() => ended)
    const lines = output.split("\n").filter((line) => line !== "" && !line.startsWith("npm warn"))
    assert.deepStrictEqual(lines.map((line) => line.replace(/\d[\d.]*( s)?/, "…")), [
      "Installing dependencies with pnpm …; the first time takes a minute …",
      "Installed in ….",
      "started",
      "stopped"
    ])
  }))
