import { spawn } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { createPrivate, writePrivate } from "../PrivateFile.ts"
import { type Binaries, type RunAs, sharedStateDir, succeedsAs } from "./Binaries.ts"
import { files, type SupervisorOptions } from "./Options.ts"

const stopTimeoutMillis = 10_000
const stopPollMillis = 20

/** A complete cluster, which no server uses. */
export interface Cluster {
  /** PostgreSQL's own data directory. */
  readonly directory: string
}

/**
 * Returns the cluster of a data directory and creates it if it is missing. The caller holds the supervisor's lock, so
 * no other process works on it. initdb writes to a temporary folder, which is renamed when it is complete: a kill
 * leaves no partial cluster.
 */
export const prepareCluster = async (
  options: SupervisorOptions,
  binaries: Binaries,
  runAs: RunAs | undefined,
  signal: AbortSignal
): Promise<Cluster> => {
  const directory = locate(options.dataDir, runAs)
  await stopLeftOver(directory)
  const known = fs.existsSync(path.join(options.dataDir, files.location))
  if (!known || options.ephemeral) fs.rmSync(directory, { recursive: true, force: true })
  if (!fs.existsSync(path.join(directory, "PG_VERSION"))) {
    await initialize(options, directory, binaries, runAs, signal)
    writePrivate(path.join(options.dataDir, files.location), directory)
  }
  const major = fs.readFileSync(path.join(directory, "PG_VERSION"), "utf8").trim()
  if (major !== binaries.major) {
    throw new Error(
      `The data in ${options.dataDir} was written by PostgreSQL ${major}, the binaries are PostgreSQL ${binaries.major}`
    )
  }
  return { directory }
}

/** The superuser's password; created at the first call. */
export const readPassword = (dataDir: string): string => {
  const file = path.join(dataDir, files.password)
  createPrivate(file, randomBytes(24).toString("base64url"))
  return fs.readFileSync(file, "utf8")
}

/**
 * Stops a server that an earlier supervisor left running, and removes the `postmaster.pid` of one that has ended.
 * PostgreSQL refuses to start while the process id in that file belongs to any process of the same user, even if that
 * is not a server; so this checks what the process is.
 */
export const stopLeftOver = async (directory: string): Promise<void> => {
  const file = path.join(directory, "postmaster.pid")
  const pid = fs.existsSync(file) ? Number.parseInt(fs.readFileSync(file, "utf8"), 10) : Number.NaN
  if (isServerOf(pid, directory)) {
    process.kill(pid, "SIGINT")
    if (!(await waitUntilEnded(pid, directory))) {
      process.kill(pid, "SIGKILL")
      await waitUntilEnded(pid, directory)
    }
  }
  fs.rmSync(file, { force: true })
}

const waitUntilEnded = async (pid: number, directory: string): Promise<boolean> => {
  for (let waitedMillis = 0; waitedMillis < stopTimeoutMillis; waitedMillis += stopPollMillis) {
    if (!isServerOf(pid, directory)) return true
    await sleep(stopPollMillis)
  }
  return false
}

const isServerOf = (pid: number, directory: string): boolean => {
  if (!(pid > 0)) return false
  if (process.platform !== "linux") {
    return succeedsAs(undefined, `ps -p "$1" -o command= | grep -qF -- "-D $2"`, [String(pid), directory])
  }
  try {
    // the working directory of a server is its data directory
    return fs.readlinkSync(`/proc/${pid}/cwd`) === fs.realpathSync(directory)
  } catch {
    return false
  }
}

/**
 * The cluster is in the data directory, or under {@link sharedStateDir} if the server's user cannot enter that. The
 * former moves, and is copied, with the directory; the latter is that of one path.
 */
const locate = (dataDir: string, runAs: RunAs | undefined): string => {
  const inside = path.join(dataDir, "cluster")
  const outside = path.join(
    sharedStateDir,
    createHash("sha256").update(fs.realpathSync(dataDir)).digest("hex").slice(0, 16),
    "cluster"
  )
  const recorded = path.join(dataDir, files.location)
  const reachable = succeedsAs(runAs, `cd "$1"`, [dataDir])
  if (!fs.existsSync(recorded)) return reachable ? inside : outside
  const directory = fs.readFileSync(recorded, "utf8")
  if (directory.startsWith(sharedStateDir)) {
    if (directory === outside) return outside
    throw new Error(
      `${dataDir} was moved or copied from another path, whose data is in ${directory}: move it back, or remove it`
    )
  }
  if (reachable) return inside
  throw new Error(
    `PostgreSQL's user cannot enter ${dataDir} any more, where its data is: open the folders above it (chmod a+x) ` +
      "or remove it"
  )
}

const initialize = async (
  options: SupervisorOptions,
  directory: string,
  binaries: Binaries,
  runAs: RunAs | undefined,
  signal: AbortSignal
): Promise<void> => {
  const parent = path.dirname(directory)
  const unfinished = `${directory}.init`
  const passwordFile = `${directory}.password`
  fs.mkdirSync(parent, { recursive: true, mode: 0o711 })
  fs.rmSync(unfinished, { recursive: true, force: true })
  fs.rmSync(passwordFile, { force: true })
  fs.mkdirSync(unfinished, { mode: 0o700 })
  fs.writeFileSync(passwordFile, readPassword(options.dataDir), { mode: 0o600 })
  if (runAs !== undefined) {
    fs.chownSync(unfinished, runAs.uid, runAs.gid)
    fs.chownSync(passwordFile, runAs.uid, runAs.gid)
  }
  const args = [
    "-D",
    unfinished,
    "-U",
    "postgres",
    `--pwfile=${passwordFile}`,
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--no-locale",
    // the superuser's password is hashed here, not by the server with its settings
    ...Object.entries(options.settings).flatMap(([name, value]) =>
      name === "scram_iterations" ? ["-c", `${name}=${value}`] : []
    )
  ]
  await runQuietly(
    path.join(binaries.binDir, "initdb"),
    isDurable(options) ? args : [...args, "--no-sync"],
    runAs,
    signal
  )
  fs.rmSync(passwordFile)
  fs.renameSync(unfinished, directory)
}

const isDurable = (options: SupervisorOptions): boolean => !options.ephemeral && options.settings["fsync"] !== "off"

const runQuietly = (
  command: string,
  args: ReadonlyArray<string>,
  runAs: RunAs | undefined,
  signal: AbortSignal
): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn(
      command,
      args,
      { ...runAs, cwd: "/", env: { LC_ALL: "C", PATH: "/usr/bin:/bin" }, signal, stdio: ["ignore", "ignore", "pipe"] }
    )
    let errorOutput = ""
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errorOutput = (errorOutput + text).slice(-2_000)
    })
    child.once("error", reject)
    child.once("close", (code) =>
      code === 0
        ? resolve()
        : reject(new Error(`${path.basename(command)} failed: ${errorOutput.trim().split("\n").at(-1)}`)))
  })
