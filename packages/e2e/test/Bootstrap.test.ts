import { assert, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join, resolve } from "node:path"

const root = resolve(import.meta.dirname, "../../..")

/** An entry that runs until it gets SIGTERM, and prints when it starts and ends. */
const entry = `
process.on("SIGTERM", () => { console.log("stopped"); process.exit(0) })
setInterval(() => {}, 1000)
console.log("started")
`

/** A package in place of pnpm, as the registry sends it, which installs nothing. */
const pnpmArchive = (folder: string): Buffer => {
  fs.mkdirSync(join(folder, "package"))
  const manifest = { name: "pnpm", version: "1.0.0", bin: "pnpm.js" }
  fs.writeFileSync(join(folder, "package/package.json"), JSON.stringify(manifest))
  fs.writeFileSync(join(folder, "package/pnpm.js"), "#!/usr/bin/env node\n")
  const options = { cwd: folder, env: { ...process.env, npm_config_update_notifier: "false" } }
  execFileSync("npm", ["pack", "--silent", "./package"], options)
  return fs.readFileSync(join(folder, "pnpm-1.0.0.tgz"))
}

/** A checkout without installed packages, in which an installation takes no time. The pinned hash is of `pinned`. */
const checkout = (pinned: (archive: Buffer) => Buffer) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = fs.mkdtempSync(join(tmpdir(), "card-rewards-bootstrap-"))
      const write = (file: string, text: string | Buffer) => {
        fs.mkdirSync(join(folder, file, ".."), { recursive: true })
        fs.writeFileSync(join(folder, file), text)
      }
      write("package.json", JSON.stringify({ scripts: { start: "node scripts/bootstrap.mjs scripts/entry.mjs" } }))
      write("packages/bundle/src/main.ts", "")
      for (const file of ["scripts/bootstrap.mjs", "scripts/lifeline.mjs"]) {
        write(file, fs.readFileSync(join(root, file), "utf8"))
      }
      write("scripts/entry.mjs", entry)
      const archive = pnpmArchive(folder)
      write("scripts/pnpm/pnpm.tgz", archive)
      const dependencies = { pnpm: "file:pnpm.tgz" }
      const integrity = `sha512-${createHash("sha512").update(pinned(archive)).digest("base64")}`
      write("scripts/pnpm/package.json", JSON.stringify({ dependencies }))
      write("scripts/pnpm/package-lock.json", JSON.stringify({
        lockfileVersion: 3,
        packages: {
          "": { dependencies },
          "node_modules/pnpm": { version: "1.0.0", resolved: "file:pnpm.tgz", integrity, bin: { pnpm: "pnpm.js" } }
        }
      }))
      return folder
    }),
    (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true }))
  )

/** The folder has no Node of its own, so that the Node of this process is used. */
const env = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter) }

it.live("a pnpm whose hash is not the pinned one is not run", () =>
  Effect.gen(function*() {
    const folder = yield* checkout((archive) => Buffer.concat([archive, Buffer.from("changed")]))
    const { status, stderr, stdout } = spawnSync("node", ["scripts/bootstrap.mjs", "scripts/entry.mjs"], {
      cwd: folder,
      env,
      encoding: "utf8"
    })
    assert.strictEqual(status, 1)
    assert.strictEqual(stdout, "")
    assert.match(stderr, /^Installing failed: npm error code EINTEGRITY$/m)
    assert.isFalse(fs.existsSync(join(folder, "node_modules/.card-rewards-installed")))
  }))

it.live("a start that installed packages first ends like any other when npm is killed", () =>
  Effect.gen(function*() {
    const folder = yield* checkout((archive) => archive)
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
    assert.deepStrictEqual(lines.map((line) => line.replace(/\d[\d.]*( s)?|file:pnpm.tgz/, "…")), [
      "Installing dependencies with pnpm …; the first time takes a minute …",
      "Installed in ….",
      "started",
      "stopped"
    ])
  }))

/** An entry that prints whether Node had to load its compiler of TypeScript. */
const typed = `
const loaded: ReadonlyArray<string> = process.moduleLoadList
console.log(loaded.some((name) => name.includes("amaro")) ? "strips types" : "reads")
`

it.live("a later start reads what Node has compiled, and an installation empties it", () =>
  Effect.gen(function*() {
    const folder = yield* checkout((archive) => archive)
    fs.writeFileSync(join(folder, "scripts/entry.mts"), typed)
    const start = (more: NodeJS.ProcessEnv = {}) => {
      const args = ["scripts/bootstrap.mjs", "scripts/entry.mts"]
      const all: NodeJS.ProcessEnv = { ...env, NODE_COMPILE_CACHE: undefined, ...more }
      return spawnSync("node", args, { cwd: folder, env: all, encoding: "utf8" }).stdout
    }
    assert.match(start(), /strips types\n$/)
    assert.strictEqual(start(), "reads\n")
    assert.strictEqual(start({ NODE_COMPILE_CACHE: join(folder, "own") }), "strips types\n")
    fs.rmSync(join(folder, "node_modules/.card-rewards-installed"))
    assert.match(start(), /strips types\n$/)
  }))
