/**
 * One process beside each running embedded PostgreSQL: owns the server, starts it again when it dies, and shuts it
 * down when nobody uses it any more.
 *
 * A user of the server holds a lease: an open connection to the supervisor. The kernel closes it when the user's
 * process ends, by whatever signal, so there is nothing to expire and nothing to clean. One supervisor per data
 * directory is guaranteed by a lock that the kernel takes back too: the file lock below SQLite's exclusive transaction.
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
import { findRunAs, prepareBinaries } from "./Binaries.ts"
import { prepareCluster, readPassword, writePrivate } from "./Cluster.ts"
import { type Control, exitCodeServedByAnother, files, type Report, type SupervisorOptions } from "./Options.ts"
import { startPostmaster } from "./Postmaster.ts"

const lockPatienceMillis = 30_000
const lockPollMillis = 25
const firstLeasePatienceMillis = 5_000
const helloPatienceMillis = 2_000
const longestHelloBytes = 200

const options: SupervisorOptions = JSON.parse(process.argv[2] ?? "{}")
const runAs = findRunAs()
const controlFile = path.join(options.dataDir, files.control)
const leases = new Set<net.Socket>()
const aborted = new AbortController()
const firstLease = Promise.withResolvers<void>()
const over = Promise.withResolvers<undefined>()
let report: Report | undefined

const takeLock = async (): Promise<DatabaseSync> => {
  const lock = new DatabaseSync(path.join(options.dataDir, files.lock), { timeout: 0 })
  for (let waitedMillis = 0; waitedMillis < lockPatienceMillis; waitedMillis += lockPollMillis) {
    try {
      lock.exec("BEGIN EXCLUSIVE")
      return lock
    } catch {
      // A supervisor that has a control file serves; one without it is starting or on its way out.
      if (waitedMillis > 0 && fs.existsSync(controlFile)) process.exit(exitCodeServedByAnother)
      await sleep(lockPollMillis)
    }
  }
  throw new Error(`Another supervisor holds ${options.dataDir} and does not answer`)
}

const acceptLeases = (token: Buffer) => (socket: net.Socket): void => {
  let hello = ""
  socket.setEncoding("utf8").setNoDelay(true).setTimeout(helloPatienceMillis, () => socket.destroy())
  socket.on("error", () => socket.destroy())
  socket.on("data", (text: string) => {
    hello += text
    if (leases.has(socket)) return
    if (hello.length > longestHelloBytes) return void socket.destroy()
    if (!hello.endsWith("\n")) return
    const offered = Buffer.from(hello.trimEnd())
    if (offered.length !== token.length || !timingSafeEqual(offered, token)) return void socket.destroy()
    socket.setTimeout(0)
    leases.add(socket)
    firstLease.resolve()
    if (report !== undefined) tell(socket, report)
  })
  socket.once("close", () => {
    if (leases.delete(socket) && leases.size === 0) over.resolve(undefined)
  })
}

const tell = (socket: net.Socket, what: Report): void => void socket.write(`${JSON.stringify(what)}\n`)

const publish = (what: Report): void => {
  report = what
  for (const lease of leases) tell(lease, what)
}

const listen = async (): Promise<net.Server> => {
  const token = randomBytes(24).toString("hex")
  const server = net.createServer(acceptLeases(Buffer.from(token)))
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve))
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("The supervisor has no port")
  const control: Control = { port: address.port, token }
  writePrivate(controlFile, JSON.stringify(control))
  return server
}

/** From the first lease to the last one. */
const serve = async (): Promise<void> => {
  const binaries = prepareBinaries(options.binDir, runAs)
  const cluster = await prepareCluster(options, binaries, runAs, aborted.signal)
  const postmaster = await startPostmaster(options, cluster, binaries, runAs)
  try {
    const port = await Promise.race([postmaster.ready, over.promise])
    if (port !== undefined) publish({ state: "ready", port })
    await over.promise
  } finally {
    closeDoor()
    await postmaster.stop()
  }
  if (options.ephemeral) fs.rmSync(cluster.directory, { recursive: true, force: true })
}

const lock = await takeLock()
fs.rmSync(controlFile, { force: true })
readPassword(options.dataDir)
const server = await listen()
const closeDoor = (): void => {
  fs.rmSync(controlFile, { force: true })
  server.close()
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => over.resolve(undefined))
void over.promise.then(() => aborted.abort())

const hasLease = await Promise.race([
  firstLease.promise.then(() => true),
  sleep(firstLeasePatienceMillis, false, { ref: false })
])
try {
  if (hasLease) await serve()
} catch (error) {
  if (!aborted.signal.aborted) publish({ state: "failed", message: error instanceof Error ? error.message : String(error) })
} finally {
  closeDoor()
  for (const lease of leases) lease.end()
  lock.close()
}
// Not `process.exit()`: what was told to the leases is still on its way. Nothing else keeps this process alive.
process.exitCode = 0
