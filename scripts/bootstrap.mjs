/**
 * `node scripts/bootstrap.mjs [Node's options] <entry.ts> [args…]`: runs an entry of this repository with the pinned
 * Node, after installing what is missing. Api, worker and the operator's commands run as bundles (packages/bundle).
 * Plain JavaScript without dependencies, for Node 20 and newer.
 *
 * The entry runs in a session of its own, so that a Ctrl-C reaches it once, through this process, and not also through
 * the terminal. It has an open pipe as file descriptor 3 (see lifeline.mjs) and ends when this process ends, by any
 * signal. A killed npm sends no signal to this process, which therefore polls its ancestors.
 */
import { spawn, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

/** Used where no package has the pinned Node: that of the `node-*` packages in pnpm-workspace.yaml. */
const oldestNode = [22, 19]
const lockTimeoutMillis = 10 * 60_000
const lockPollMillis = 100
const parentPollMillis = 250
/** Longer than the entry waits for the processes that it started. */
const stopTimeoutMillis = 25_000

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
/** Pins pnpm by version and hash, for us and for deploy/Containerfile. */
const pnpmFolder = path.join(root, "scripts/pnpm")
const modules = path.join(root, "node_modules")
const stampFile = path.join(modules, ".card-rewards-installed")
const lockFile = path.join(modules, ".card-rewards-installing")
/** Prints the path of a program's bundle; without a program it makes all bundles. */
const bundler = "packages/bundle/src/main.ts"
/** What Node has compiled, by the hash of each source: it saves a third of a start. An installation empties it. */
const compileCache = path.join(modules, ".cache/card-rewards/compile-cache")

const main = async () => {
  const given = process.argv.slice(2)
  const at = given.findIndex((arg) => !arg.startsWith("--"))
  if (at < 0) throw new Error("Usage: node scripts/bootstrap.mjs [Node's options] <entry.ts> [args…]")
  const [options, entry, args] = [given.slice(0, at), given[at], given.slice(at + 1)]
  const wanted = fingerprint()
  if (read(stampFile) !== wanted) await underLock(() => read(stampFile) === wanted || install(wanted))
  const node = findNode()
  const lifeline = new URL("lifeline.mjs", import.meta.url).href
  await run(node, [...options, "--import", lifeline, bundled(node, entry) ?? path.join(root, entry), ...args])
}

/** The bundle of a program of the service; undefined for another entry. */
const bundled = (node, entry) => {
  const program = /^packages\/(admin|api|worker)\/src\/main[.]ts$/.exec(entry)?.[1]
  if (program === undefined) return undefined
  const options = { cwd: root, env: environment(node), encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }
  const { status, stdout } = spawnSync(node, [bundler, program], options)
  if (status !== 0) throw new Error(`The ${program} cannot be bundled`)
  return stdout
}

/** A hash of everything that determines the contents of node_modules. */
const fingerprint = () => {
  const hash = createHash("sha256").update(`${process.platform}-${process.arch}`)
  const manifests = fs.readdirSync(path.join(root, "packages")).sort().map((name) => `packages/${name}/package.json`)
  const settings = ["package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml", "scripts/pnpm/package-lock.json"]
  for (const file of [...settings, ...manifests]) {
    hash.update(`\n${file}\n`).update(read(path.join(root, file)) ?? "")
  }
  return hash.digest("hex")
}

const read = (file) => {
  try {
    return fs.readFileSync(file, "utf8")
  } catch {
    return undefined
  }
}

const install = async (wanted) => {
  const pnpmVersion = JSON.parse(read(path.join(pnpmFolder, "package.json"))).dependencies.pnpm
  print(`Installing dependencies with pnpm ${pnpmVersion}; the first time takes a minute …`)
  const startedAt = Date.now()
  fs.rmSync(compileCache, { recursive: true, force: true })
  // an installation that does not end is none, also of what was installed before
  fs.rmSync(stampFile, { force: true })
  // `CI` keeps pnpm from asking questions.
  const env = { ...process.env, CI: "true", npm_config_update_notifier: "false" }
  const pnpmArgs = [path.join(pnpmFolder, "node_modules/.bin/pnpm"), "install", "--frozen-lockfile"]
  if (!hasWritableHome()) {
    pnpmArgs.push("--store-dir", path.join(modules, ".pnpm-store"))
    Object.assign(env, { HOME: path.join(modules, ".cache"), npm_config_cache: path.join(modules, ".cache/npm") })
  }
  // npm compares the hash of what it downloads with the one in package-lock.json.
  await runQuietly("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: pnpmFolder, env })
  await runQuietly(process.execPath, pnpmArgs, { cwd: root, env })
  // a user who may not write here can then run the programs
  await runQuietly(findNode(), [bundler], { cwd: root, env })
  fs.writeFileSync(stampFile, wanted)
  print(`Installed in ${((Date.now() - startedAt) / 1000).toFixed(1)} s.`)
}

const hasWritableHome = () => {
  try {
    fs.accessSync(os.homedir(), fs.constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** The line of npm's or pnpm's output that names the error. */
const reasonIn = (output) => {
  const lines = output.split("\n").map((line) => line.trim())
    .filter((line) => line !== "" && !/^npm (warn|notice)/.test(line))
  return lines.find((line) => /ERR_PNPM|npm error|^Error/.test(line)) ?? lines.at(-1) ?? "no reason given"
}

/**
 * One installation at a time in a checkout. The lock names the process that installs and the one it started; it is
 * taken over when both have ended.
 */
const underLock = async (work) => {
  fs.mkdirSync(modules, { recursive: true })
  for (let waitedMillis = 0; !tryLock(); waitedMillis += lockPollMillis) {
    if (waitedMillis === 0) print("Waiting for another installation in this checkout …")
    if (waitedMillis > lockTimeoutMillis) {
      throw new Error(`Another installation does not end: remove ${lockFile} if there is none`)
    }
    await new Promise((resolve) => setTimeout(resolve, lockPollMillis))
  }
  try {
    await work()
  } finally {
    fs.rmSync(lockFile, { force: true })
  }
}

const tryLock = () => {
  try {
    fs.writeFileSync(lockFile, `${process.pid}`, { flag: "wx" })
    return true
  } catch (error) {
    if (error.code !== "EEXIST") throw error
  }
  const holder = read(lockFile)
  // An empty lock is being written at this moment.
  if (holder === undefined || holder === "" || holder.split(" ").some((pid) => isAlive(Number(pid)))) return false
  // Of the processes that see a stale lock only one can rename it; one that has renamed a fresh lock restores it.
  const mine = `${lockFile}.${process.pid}`
  try {
    fs.renameSync(lockFile, mine)
    if (read(mine) !== holder) fs.linkSync(mine, lockFile)
    fs.rmSync(mine)
  } catch {
    return false
  }
  return false
}

const isAlive = (pid) => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === "EPERM"
  }
}

/** Runs a command to its end; throws with the reason, after its output, where it fails. */
const runQuietly = async (command, args, options) => {
  const { code, output } = await capture(command, args, options)
  if (code === 0) return
  process.stderr.write(output)
  throw new Error(`Installing failed: ${reasonIn(output)}`)
}

const capture = (command, args, options) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"], detached: true })
    child.once("error", (error) => reject(new Error(`${command} does not run: ${error.message}`)))
    if (child.pid !== undefined) fs.writeFileSync(lockFile, `${process.pid} ${child.pid}`)
    let output = ""
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text))
    const stop = (signal) => {
      // the lock stays: it holds until the child has ended
      process.kill(-child.pid, "SIGTERM")
      process.exit(128 + os.constants.signals[signal])
    }
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, stop)
    const unwatchNpm = watchNpm(() => stop("SIGTERM"))
    child.once("close", (code) => {
      unwatchNpm()
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.off(signal, stop)
      resolve({ code, output })
    })
  })

/** The pinned Node; on a platform without a package for it, the Node of this process if it is new enough. */
const findNode = () => {
  const pinned = path.join(modules, `node-${process.platform}-${process.arch}`, "bin", "node")
  if (fs.existsSync(pinned)) return pinned
  const [major, minor] = process.versions.node.split(".").map(Number)
  if (major > oldestNode[0] || (major === oldestNode[0] && minor >= oldestNode[1])) return process.execPath
  throw new Error(
    `There is no packaged Node for ${process.platform}-${process.arch}: run this with Node ` +
      `${oldestNode.join(".")} or newer (this is ${process.versions.node})`
  )
}

const environment = (node) => {
  const bins = [path.dirname(node), path.join(modules, ".bin")]
  const PATH = [...bins, process.env.PATH].join(path.delimiter)
  return { NODE_COMPILE_CACHE: compileCache, ...process.env, PATH }
}

const run = (node, args) =>
  new Promise((resolve, reject) => {
    const env = environment(node)
    const child = spawn(node, args, { env, stdio: ["inherit", "inherit", "inherit", "pipe"], detached: true })
    child.stdio[3]?.on("error", () => undefined)
    child.once("error", (error) => reject(new Error(`${node} does not run: ${error.message}`)))
    const stop = (signal) => {
      child.kill(signal)
      setTimeout(() => child.kill("SIGKILL"), stopTimeoutMillis).unref()
    }
    // The terminal sends a Ctrl-C to this process and to npm, which forwards it: only the first is passed on.
    for (const [received, forwarded] of [["SIGINT", "SIGINT"], ["SIGTERM", "SIGTERM"], ["SIGHUP", "SIGTERM"]]) {
      let isForwarded = false
      process.on(received, () => {
        if (!isForwarded) stop(forwarded)
        isForwarded = true
      })
    }
    watchNpm(() => stop("SIGTERM"))
    child.once("exit", (code, signal) => {
      process.exitCode = code ?? 128 + os.constants.signals[signal]
      child.stdio[3]?.destroy()
      resolve()
    })
  })

/**
 * Calls back when npm, or one of the shells through which npm runs this process, is killed: a parent in the chain then
 * changes. Returns a function that ends the watch.
 */
const watchNpm = (onGone) => {
  if (process.env.npm_lifecycle_event === undefined) return () => undefined
  const ancestors = [process.ppid]
  while (isShell(ancestors.at(-1))) ancestors.push(parentOf(ancestors.at(-1)))
  const isIntact = () =>
    process.ppid === ancestors[0] &&
    ancestors.every((pid, at) => at === ancestors.length - 1 || parentOf(pid) === ancestors[at + 1])
  const timer = setInterval(() => {
    if (isIntact()) return
    clearInterval(timer)
    onGone()
  }, parentPollMillis)
  timer.unref()
  return () => clearInterval(timer)
}

/** Judged by its executable, because a shell that runs a script has the script's name. */
const isShell = (pid) => {
  try {
    return /^(sh|dash|bash|zsh|ash|busybox)$/.test(path.basename(fs.readlinkSync(`/proc/${pid}/exe`)))
  } catch {
    return false
  }
}

const parentOf = (pid) => Number(read(`/proc/${pid}/stat`)?.replace(/^.*\) \S /s, "").split(" ")[0])

const print = (line) => process.stderr.write(`${line}\n`)

main().catch((error) => {
  print(error.message)
  process.exitCode = 1
})
