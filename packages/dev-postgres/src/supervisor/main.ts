/**
 * The supervisor of one embedded PostgreSQL server: starts it, restarts it when it ends by itself, and stops it after
 * the last lease.
 *
 * A lease is an open connection to the supervisor. The kernel closes it when the process that has it ends, even by
 * SIGKILL, so no lease outlives its process. A data directory has one supervisor, by a lock that the kernel releases as
 * well: the file lock of SQLite's exclusive transaction.
 *
 * ```
 * npm start ──lease──▶ supervisor ──pipe──▶ watchdog (sh) ──▶ postgres
 * admin     ──lease──▶
 * ```
 */
import { randomBytes, timingSafeEqual } from "node:crypto"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { setTimeout as sleep } from "node:timers/promises"
import { writePrivate } from "../PrivateFile.ts"
import { findRunAs, prepareBinaries } from "./Binaries.ts"
import { prepareCluster, readPassword } from "./Cluster.ts"
import { type Control, exitCodeServedByAnother, files, type Report, type SupervisorOptions } from "./Options.ts"
import { startPostmaster } from "./Postmaster.ts"

const lockTimeoutMillis = 30_000
const lockPollMillis = 25
const firstLeaseTimeoutMillis = 5_000
const tokenTimeoutMillis = 2_000
const maxTokenBytes = 200

const options: SupervisorOptions = JSON.parse(process.argv[2] ?? "{}")
const runAs = findRunAs()
const controlFile = path.join(options.dataDir, files.control)
const leases = new Set<net.Socket>()
const aborted = new AbortController()
const firstLease = Promise.withResolvers<void>()
const lastLeaseEnded = Promise.withResolvers<undefined>()
let report: Report | undefined

const takeLock = async (): Promise<DatabaseSync> => {
  const lock = new DatabaseSync(path.join(options.dataDir, files.lock), { timeout: 0 })
  for (let waitedMillis = 0; waitedMillis < lockTimeoutMillis; waitedMillis += lockPollMillis) {
    try {
      lock.exec("BEGIN EXCLUSIVE")
      return lock
    } catch {
      // a supervisor with a control file serves; one without it starts or ends
      if (waitedMillis > 0 && fs.existsSync(controlFile)) process.exit(exitCodeServedByAnother)
      await sleep(lockPollMillis)
    }
  }
  throw new Error(`Another supervisor holds ${options.dataDir} and does not answer`)
}

const acceptLeases = (token: Buffer) => (socket: net.Socket): void => {
  let received = ""
  socket.setEncoding("utf8").setNoDelay(true).setTimeout(tokenTimeoutMillis, () => socket.destroy())
  socket.on("error", () => socket.destroy())
  socket.on("data", (text: string) => {
    received += text
    if (leases.has(socket)) return
    if (received.length > maxTokenBytes) return void socket.destroy()
    if (!received.endsWith("\n")) return
    const offered = Buffer.from(received.trimEnd())
    if (offered.length !== token.length || !timingSafeEqual(offered, token)) return void socket.destroy()
    // the server stops: a process that comes now starts another supervisor
    if (aborted.signal.aborted) return void socket.destroy()
    socket.setTimeout(0)
    leases.add(socket)
    firstLease.resolve()
    if (report !== undefined) send(socket, report)
  })
  socket.once("close", () => {
    if (leases.delete(socket) && leases.size === 0) lastLeaseEnded.resolve(undefined)
  })
}

const send = (socket: net.Socket, message: Report): void => void socket.write(`${JSON.stringify(message)}\n`)

const publish = (message: Report): void => {
  report = message
  for (const lease of leases) send(lease, message)
}

const listen = async (): Promise<net.Server> => {
  const token = randomBytes(24).toString("hex")
  const server = net.createServer(acceptLeases(Buffer.from(token)))
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve))
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("The supervisor has no port")
  const control: Control = { dataDir: fs.realpathSync(options.dataDir), port: address.port, token }
  writePrivate(controlFile, JSON.stringify(control))
  return server
}

/** Runs the server until the last lease ends. */
const serve = async (): Promise<void> => {
  const binaries = prepareBinaries(options.binDir, runAs)
  const cluster = await prepareCluster(options, binaries, runAs, aborted.signal)
  const postmaster = await startPostmaster(options, cluster, binaries, runAs)
  try {
    const port = await Promise.race([postmaster.ready, lastLeaseEnded.promise])
    if (port !== undefined) publish({ state: "ready", port })
    await lastLeaseEnded.promise
  } finally {
    stopListening()
    await postmaster.stop()
  }
  if (options.ephemeral) fs.rmSync(cluster.directory, { recursive: true, force: true })
}

const lock = await takeLock()
fs.rmSync(controlFile, { force: true })
readPassword(options.dataDir)
const server = await listen()
const stopListening = (): void => {
  fs.rmSync(controlFile, { force: true })
  server.close()
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => lastLeaseEnded.resolve(undefined))
}
void lastLeaseEnded.promise.then(() => aborted.abort())

const hasLease = await Promise.race([
  firstLease.promise.then(() => true),
  sleep(firstLeaseTimeoutMillis, false, { ref: false })
])
try {
  if (hasLease) await serve()
} catch (error) {
  const message = error instanceof Error ? error.message : String(error)
  if (!aborted.signal.aborted) publish({ state: "failed", message })
} finally {
  aborted.abort()
  stopListening()
  for (const lease of leases) lease.end()
  lock.close()
}
// Not `process.exit()`, which would drop reports that are not written yet. Nothing else keeps this process alive.
process.exitCode = 0
