import { Duration, Effect, Option, Schedule, Schema, type Scope } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import {
  type Control,
  exitCodeServedByAnother,
  files,
  type Report,
  type SupervisorOptions
} from "./supervisor/Options.ts"

const pollMillis = 10
const startPatience = Duration.seconds(120)
const longestPause = Duration.seconds(10)

/** The embedded PostgreSQL does not come up; the message is one line for a person. */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  message: Schema.String
}) {}

/**
 * Keeps the server of a data directory running until the scope closes or this process ends, and succeeds with its
 * port. Starts a supervisor where there is none, shares the one that is there, and replaces one that was killed.
 */
export const hold = Effect.fn("Lease.hold")(function*(
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
      Effect.retry(Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced(longestPause)]))
    )
  }).pipe(Effect.forever, Effect.forkScoped)
  return port
})

interface Held {
  readonly socket: net.Socket
  readonly port: number
}

const acquire = Effect.fnUntraced(
  function*(options: SupervisorOptions): Effect.fn.Return<Held, EmbeddedPostgresError> {
    let launched: Launched | undefined
    while (true) {
      const control = readControl(options.dataDir)
      const held = control === undefined ? Option.none() : yield* connect(control)
      if (Option.isSome(held)) return held.value
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
      duration: startPatience,
      orElse: () =>
        Effect.fail(
          new EmbeddedPostgresError({
            message: `PostgreSQL did not start within ${Duration.format(startPatience)}: see ${path.join(options.dataDir, files.serverLog)}`
          })
        )
    })
)

/** A lease from the running supervisor; none where nobody (or not ours) answers, or where it is just leaving. */
const connect = (control: Control): Effect.Effect<Option.Option<Held>, EmbeddedPostgresError> =>
  Effect.callback((resume) => {
    const socket = net.connect(control.port, "127.0.0.1")
    let heard = ""
    socket.setEncoding("utf8").setNoDelay(true)
    socket.on("error", () => socket.destroy())
    socket.once("close", () => resume(Effect.succeedNone))
    socket.once("connect", () => socket.write(`${control.token}\n`))
    socket.on("data", (text: string) => {
      heard += text
      if (!heard.endsWith("\n")) return
      const report = parseJson<Report>(heard)
      if (report?.state === "failed") return resume(Effect.fail(new EmbeddedPostgresError({ message: report.message })))
      if (report?.state !== "ready") return void socket.destroy()
      // The lease must not be what keeps a program alive that has nothing left to do.
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
  /** One line, where it ended by itself and not because another supervisor serves. */
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
        : errorLine(fs.readFileSync(logFile, "utf8")) ?? `The supervisor of PostgreSQL ended with code ${child.exitCode}`
  }
}

const errorLine = (log: string): string | undefined =>
  log.split("\n").findLast((line) => /^\w*Error: /.test(line))?.replace(/^\w*Error: /, "")

const readControl = (dataDir: string): Control | undefined => {
  try {
    return parseJson<Control>(fs.readFileSync(path.join(dataDir, files.control), "utf8"))
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
 * Root's server runs as another user, which must pass through this folder to the cluster; every file in it is private.
 */
const makeDataDir = (dataDir: string): Effect.Effect<void, EmbeddedPostgresError> =>
  Effect.try({
    try: () => {
      fs.mkdirSync(dataDir, { recursive: true })
      fs.chmodSync(dataDir, process.getuid?.() === 0 ? 0o711 : 0o700)
    },
    catch: (cause) =>
      new EmbeddedPostgresError({
        message: `Cannot use ${dataDir} for PostgreSQL: ${cause instanceof Error ? cause.message : cause}`
      })
  })
