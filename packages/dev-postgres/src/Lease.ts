import { Duration, Effect, Option, Schedule, Schema, type Scope } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { makeOwnFolder } from "./OwnFolder.ts"
import {
  type Control,
  exitCodeServedByAnother,
  files,
  type Report,
  type SupervisorOptions
} from "./supervisor/Options.ts"

const pollMillis = 10
const startTimeout = Duration.seconds(120)
const maxPause = Duration.seconds(10)

/** The embedded PostgreSQL does not start. The message is one line. */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  message: Schema.String
}) {}

/**
 * Takes a lease on the server of a data directory until the scope closes or this process ends, and returns the server's
 * port. Starts a supervisor where none runs, shares the running one, and replaces one that was killed.
 */
export const acquireLease = Effect.fn("Lease.acquireLease")(function*(
  options: SupervisorOptions
): Effect.fn.Return<number, EmbeddedPostgresError, Scope.Scope> {
  yield* makeDataDir(options.dataDir)
  const lease = { current: yield* acquire(options) }
  yield* Effect.addFinalizer(() => Effect.sync(() => lease.current.socket.destroy()))
  const { port } = lease.current
  yield* Effect.gen(function*() {
    yield* closed(lease.current.socket)
    yield* Effect.logWarning("The supervisor of the embedded PostgreSQL ended; starting another")
    lease.current = yield* acquire(options).pipe(
      Effect.tapError((error) => Effect.logError(error.message)),
      Effect.retry(Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced(maxPause)]))
    )
  }).pipe(Effect.forever, Effect.forkScoped)
  return port
})

interface Lease {
  readonly socket: net.Socket
  readonly port: number
}

const acquire = Effect.fnUntraced(
  function*(options: SupervisorOptions): Effect.fn.Return<Lease, EmbeddedPostgresError> {
    let launched: Launched | undefined
    while (true) {
      const control = readControl(options.dataDir)
      const lease = control === undefined ? Option.none() : yield* connect(control)
      if (Option.isSome(lease)) return lease.value
      if (launched?.isRunning() !== true) {
        const failure = launched?.failure()
        if (failure !== undefined) return yield* new EmbeddedPostgresError({ message: failure })
        launched = launch(options)
      }
      yield* Effect.sleep(pollMillis)
    }
  },
  (acquired, options) =>
    Effect.timeoutOrElse(acquired, {
      duration: startTimeout,
      orElse: () =>
        Effect.fail(
          new EmbeddedPostgresError({
            message: `PostgreSQL did not start within ${Duration.format(startTimeout)}: see ` +
              path.join(options.dataDir, files.serverLog)
          })
        )
    })
)

/** A lease from the running supervisor; none where no supervisor answers, or where it is shutting down. */
const connect = (control: Control): Effect.Effect<Option.Option<Lease>, EmbeddedPostgresError> =>
  Effect.callback((resume) => {
    const socket = net.connect(control.port, "127.0.0.1")
    let received = ""
    socket.setEncoding("utf8").setNoDelay(true)
    socket.on("error", () => socket.destroy())
    socket.once("close", () => resume(Effect.succeedNone))
    socket.once("connect", () => socket.write(`${control.token}\n`))
    socket.on("data", (text: string) => {
      received += text
      if (!received.endsWith("\n")) return
      const report = parseJson<Report>(received)
      if (report?.state === "failed") return resume(Effect.fail(new EmbeddedPostgresError({ message: report.message })))
      if (report?.state !== "ready") return void socket.destroy()
      // The lease does not keep the process alive.
      socket.unref()
      resume(Effect.succeedSome({ socket, port: report.port }))
    })
    return Effect.sync(() => socket.destroy())
  })

const closed = (socket: net.Socket): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (socket.destroyed) return resume(Effect.void)
    socket.once("close", () => resume(Effect.void))
  })

interface Launched {
  readonly isRunning: () => boolean
  /** One line, if it failed. Undefined while it runs, or if it ended because another supervisor serves. */
  readonly failure: () => string | undefined
}

const launch = (options: SupervisorOptions): Launched => {
  const logFile = path.join(options.dataDir, files.supervisorLog)
  const log = fs.openSync(logFile, "a", 0o600)
  const main = fileURLToPath(new URL("./supervisor/main.ts", import.meta.url))
  const child = spawn(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", main, JSON.stringify(options)],
    { cwd: "/", detached: true, env: {}, stdio: ["ignore", log, log] }
  )
  fs.closeSync(log)
  child.once("error", () => undefined)
  child.unref()
  return {
    isRunning: () => child.pid !== undefined && child.exitCode === null && child.signalCode === null,
    failure: () =>
      child.exitCode === null || child.exitCode === 0 || child.exitCode === exitCodeServedByAnother
        ? undefined
        : errorLine(fs.readFileSync(logFile, "utf8")) ??
          `The supervisor of PostgreSQL ended with code ${child.exitCode}`
  }
}

const errorLine = (log: string): string | undefined =>
  log.split("\n").findLast((line) => /^\w*Error: /.test(line))?.replace(/^\w*Error: /, "")

const readControl = (dataDir: string): Control | undefined => {
  try {
    const control = parseJson<Control>(fs.readFileSync(path.join(dataDir, files.control), "utf8"))
    return control?.dataDir === fs.realpathSync(dataDir) ? control : undefined
  } catch {
    return undefined
  }
}

const parseJson = <A>(text: string): A | undefined => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * As root the server runs as another user, which must be able to enter this folder. Every file in it is private.
 */
const makeDataDir = (dataDir: string): Effect.Effect<void, EmbeddedPostgresError> =>
  Effect.try({
    try: () => {
      makeOwnFolder(dataDir)
      fs.chmodSync(dataDir, process.getuid?.() === 0 ? 0o711 : 0o700)
    },
    catch: (cause) =>
      new EmbeddedPostgresError({
        message: `Cannot use ${dataDir} for PostgreSQL: ${cause instanceof Error ? cause.message : cause}`
      })
  })
