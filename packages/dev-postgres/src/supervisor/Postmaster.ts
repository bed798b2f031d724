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
const maxPauseMillis = 10_000
const stableAfterMillis = 30_000
const attemptsBeforeFirstReady = 5
const readyPollMillis = 5
const maxLogBytes = 5_000_000

/**
 * Ports below the range of outgoing connections, so that no other process gets the port during a restart.
 */
const portRange = { first: 20_000, end: 32_000 } as const

/**
 * The shell between the supervisor and the server. Its file descriptor 3 is a pipe that closes when the supervisor
 * ends, even by SIGKILL. Then the shell stops the server: a fast shutdown, an immediate one after 5 s, SIGKILL after
 * 10 s.
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

/** A server that restarts on the same port, with growing pauses, whenever it ends by itself. */
export interface Postmaster {
  /** The port, as soon as the server accepts connections. Rejects with a message of one line if it does not start. */
  readonly ready: Promise<number>
  /** Shuts the server down and waits until it has ended. */
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
    fs.existsSync(logFile) && fs.statSync(logFile).size > maxLogBytes ? "w+" : "a+",
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
    const closePipe = () => child.stdio[3]?.destroy()
    stopping.signal.addEventListener("abort", closePipe)
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()).once("error", () => resolve()))
    const isRunning = () => child.exitCode === null && child.signalCode === null && child.pid !== undefined
    while (isRunning() && !isReady(cluster.directory)) await Promise.race([ended, sleep(readyPollMillis)])
    if (isRunning()) {
      wasReady = true
      ready.resolve(port)
    }
    await ended
    closePipe()
    stopping.signal.removeEventListener("abort", closePipe)
  }

  const keepRunning = async (): Promise<void> => {
    let pauseMillis = firstPauseMillis
    for (let attempt = 1; !stopping.signal.aborted; attempt++) {
      const logSize = fs.fstatSync(log).size
      const startedAt = performance.now()
      await runOnce()
      const newLog = logFrom(log, logSize)
      if (!wasReady && attempt >= attemptsBeforeFirstReady) {
        throw new Error(`PostgreSQL does not start: ${errorIn(newLog)} (${logFile})`)
      }
      if (!wasReady && newLog.includes("could not bind")) port = await choosePort(options.dataDir)
      if (performance.now() - startedAt > stableAfterMillis) pauseMillis = firstPauseMillis
      await sleep(pauseMillis, undefined, { signal: stopping.signal }).catch(() => undefined)
      pauseMillis = Math.min(pauseMillis * 2, maxPauseMillis)
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

/** The first 64 KiB of a log from a byte on: the file may be large, or removed, and the server has to go on. */
const logFrom = (log: number, position: number): string => {
  const bytes = Buffer.alloc(65_536)
  return bytes.toString("utf8", 0, fs.readSync(log, bytes, 0, bytes.length, position))
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

/** PostgreSQL writes its state into the eighth line of `postmaster.pid`. */
const isReady = (directory: string): boolean => {
  try {
    return fs.readFileSync(path.join(directory, "postmaster.pid"), "utf8").split("\n")[7]?.trim() === "ready"
  } catch {
    return false
  }
}

const errorIn = (log: string): string =>
  log.split("\n").find((line) => /FATAL|ERROR|error/.test(line))?.replace(
    /^.*?(FATAL|ERROR): */,
    ""
  ) ?? "it ended without a message"

/** The port of the last start if it is free, so that addresses stay valid; otherwise a random free one. */
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
