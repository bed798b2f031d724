/**
 * Builds the console into `dist` where its sources are newer than what is there. The page is replaced last and
 * atomically, so that an api which serves it meanwhile always has a complete one.
 */
import * as fs from "node:fs"
import * as path from "node:path"

const root = import.meta.dirname
const modules = path.join(root, "node_modules")
const dist = path.join(root, "dist")
const page = path.join(dist, "index.html")

/** The inputs of the build. */
const sources = [
  "index.html",
  "vite.config.ts",
  "src/**/*",
  "../client/src/**/*",
  "../domain/src/**/*",
  "../../pnpm-lock.yaml"
]

const modifiedAt = (file: string): number => fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0

const isStale = (): boolean => {
  const builtAt = modifiedAt(page)
  return fs.globSync(sources, { cwd: root }).some((file) => modifiedAt(path.join(root, file)) > builtAt)
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** Removes what builds have left whose process was killed. */
const removeLeftOver = (): void => {
  for (const name of fs.globSync(".console-*", { cwd: modules })) {
    if (!isAlive(Number(name.slice(".console-".length)))) {
      fs.rmSync(path.join(modules, name), { recursive: true, force: true })
    }
  }
}

const replace = async (): Promise<void> => {
  removeLeftOver()
  const scratch = path.join(modules, `.console-${process.pid}`)
  try {
    const { build } = await import("vite")
    await build({ root, logLevel: "warn", build: { outDir: scratch, emptyOutDir: true } })
    const assets = fs.readdirSync(path.join(scratch, "assets"))
    fs.cpSync(path.join(scratch, "assets"), path.join(dist, "assets"), { recursive: true })
    fs.renameSync(path.join(scratch, "index.html"), page)
    for (const old of fs.readdirSync(path.join(dist, "assets")).filter((name) => !assets.includes(name))) {
      fs.rmSync(path.join(dist, "assets", old), { force: true })
    }
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true })
  }
}

if (isStale()) await replace()
