import { type ChildProcess, spawn } from "node:child_process"
import { randomInt } from "node:crypto"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import type { Binaries, RunAs } from "./Binaries.ts"
import { type Cluster, stopLeftOver } from "./Cluster.ts"
import { files, type SupervisorOptions } from "./Options.ts"

const firstPauseMillis = 100
const longestPauseMillis = 10_000
const steadyAfterMillis = 30_000
const attemptsBeforeFirstReady = 5
const readyPollMillis = 5
const keptLogBytes = 5_000_000

/**
 * Ports below the range from which systems take the ports of outgoing connections: nobody gets ours while we restart.
 */
const portRange = { first: 20_000, end: 32_000 } as const

/**
 * The shell that stands between the supervisor and the server. Its file descriptor 3 is a pipe whose other end dies
 * with the supervisor, by any signal; then the server is shut down: fast, after 5 s without asking its sessions,
 * after 10 s at once.
 */
const watchdog = `
"$@" 3<&- &
server=$!
(
  read -r _ <&3
  for signal in INT QUIT KILL; do
    kill -s $signal $server 2>/dev/null || exit 0
    tries=0
    while [ $tries -lt 250 ]; do
      sleep 0.02
      kill -0 $server 2>/dev/null || exit 0
      tries=$((tries + 1))
    done
  done
) &
exec 3<&-
wait $server
`

/** A server that is started again, on the same port and with growing pauses, whenever it dies by itself. */
export interface Postmaster {
  /** The port, as soon as it accepts connections; rejects with one line when it does not come up. */
  readonly ready: Promise<number>
  /** Shuts the server down and waits for its end. */
  readonly stop: () => Promise<void>
}

/** Starts the server of a cluster. */
export const startPostmaster = async (
  options: SupervisorOptions,
  cluster: Cluster,
  binaries: Binaries,
  runAs: RunAs | undefined
): Promise<Postmaster> => {
  const logFile = path.join(options.dataDir, files.serverLog)
  const log = fs.openSync(
    logFile,
    fs.existsSync(logFile) && fs.statSync(logFile).size > keptLogBytes ? "w" : "a",
    0o600
  )
  const stopping = new AbortController()
  const ready = Promise.withResolvers<number>()
  let port = await choosePort(options.dataDir)
  let wasReady = false

  const runOnce = async (): Promise<void> => {
    await stopLeftOver(cluster.directory)
    if (stopping.signal.aborted) return
    const child = spawnServer(options, cluster, binaries, runAs, port, log)
    const letGo = () => child.stdio[3]?.destroy()
    stopping.signal.addEventListener("abort", letGo)
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()).once("error", () => resolve()))
    const isRunning = () => child.exitCode === null && child.signalCode === null && child.pid !== undefined
    while (isRunning() && !isReady(cluster.directory)) await Promise.race([ended, sleep(readyPollMillis)])
    if (isRunning()) {
      wasReady = true
      ready.resolve(port)
    }
    await ended
    letGo()
    stopping.signal.removeEventListener("abort", letGo)
  }

  const keepRunning = async (): Promise<void> => {
    let pauseMillis = firstPauseMillis
    for (let attempt = 1; !stopping.signal.aborted; attempt++) {
      const logSize = fs.statSync(logFile).size
      const startedAt = performance.now()
      await runOnce()
      const complaint = fs.readFileSync(logFile, "utf8").slice(logSize)
      if (!wasReady && attempt >= attemptsBeforeFirstReady) throw new Error(`PostgreSQL does not start: ${complaintOf(complaint)} (${logFile})`)
      if (!wasReady && complaint.includes("could not bind")) port = await choosePort(options.dataDir)
      if (performance.now() - startedAt > steadyAfterMillis) pauseMillis = firstPauseMillis
      await sleep(pauseMillis, undefined, { signal: stopping.signal }).catch(() => undefined)
      pauseMillis = Math.min(pauseMillis * 2, longestPauseMillis)
    }
  }
  const running = keepRunning().catch(ready.reject)
  return {
    ready: ready.promise,
    stop: () => {
      stopping.abort()
      return running
    }
  }
}

const spawnServer = (
  options: SupervisorOptions,
  cluster: Cluster,
  binaries: Binaries,
  runAs: RunAs | undefined,
  port: number,
  log: number
): ChildProcess => {
  const settings = {
    port: String(port),
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    timezone: "UTC",
    log_timezone: "UTC",
    log_checkpoints: "off",
    ...options.settings
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
  const child = spawn(
    "/bin/sh",
    ["-c", watchdog, "sh", path.join(binaries.binDir, "postgres"), "-D", cluster.directory, ...args],
    { ...runAs, cwd: "/", env: { LC_ALL: "C", PATH: "/usr/bin:/bin" }, stdio: ["ignore", log, log, "pipe"] }
  )
  child.stdio[3]?.on("error", () => undefined)
  return child
}

/** PostgreSQL tells its state in the eighth line of `postmaster.pid`. */
const isReady = (directory: string): boolean => {
  try {
    return fs.readFileSync(path.join(directory, "postmaster.pid"), "utf8").split("\n")[7]?.trim() === "ready"
  } catch {
    return false
  }
}

const complaintOf = (log: string): string =>
  log.split("\n").find((line) => /FATAL|ERROR|error/.test(line))?.replace(
    /^.*?(FATAL|ERROR): */,
    ""
  ) ?? "it ended without a word"

/** The port of the last time where it is free, so that addresses stay valid over restarts; else a random free one. */
const choosePort = async (dataDir: string): Promise<number> => {
  const file = path.join(dataDir, files.port)
  const last = fs.existsSync(file) ? Number(fs.readFileSync(file, "utf8")) : Number.NaN
  if (await isFree(last)) return last
  for (let tries = 0; tries < 100; tries++) {
    const port = randomInt(portRange.first, portRange.end)
    if (!(await isFree(port))) continue
    fs.writeFileSync(file, String(port))
    return port
  }
  throw new Error("No free port for PostgreSQL on 127.0.0.1")
}

const isFree = (port: number): Promise<boolean> =>
  Number.isInteger(port) && port > 0 && port < 65_536
    ? new Promise((resolve) => {
      const server = net.createServer()
      server.once("error", () => resolve(false))
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
    })
    : Promise.resolve(false)
