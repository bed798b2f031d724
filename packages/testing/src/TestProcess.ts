import { Deferred, Effect, type Scope } from "effect"
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process"
import { readFileSync } from "node:fs"
import { resolve } from "node:path"

/** A program in a process of its own. */
export interface Running {
  readonly pid: number
  /** Its output so far, on stdout and stderr. */
  readonly output: () => string
  readonly send: (signal: "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT") => Effect.Effect<void>
  /** Its exit code; null if a signal ended it. */
  readonly exit: Effect.Effect<number | null>
  readonly isAlive: () => boolean
  /** Resident memory in bytes; 0 after its end. */
  readonly residentBytes: () => number
}

const root = resolve(import.meta.dirname, "../../..")

/** Ends a process that has a pipe as file descriptor 3 with the process at the other end of the pipe. */
const lifeline = ["--import", resolve(root, "scripts/lifeline.mjs")]

/**
 * The variable of Node's cache of compiled code, without which a start takes half as long again. The folder is that of
 * scripts/bootstrap.mjs: an installation empties it.
 */
export const compileCache = { NODE_COMPILE_CACHE: resolve(root, "node_modules/.cache/card-rewards/compile-cache") }

/**
 * Starts Node with these arguments and, but for {@link compileCache}, only these variables. It is killed when the scope
 * closes, and gets SIGTERM when this process ends, by whatever signal.
 */
export const start = (
  args: ReadonlyArray<string>,
  options: { readonly env: Readonly<Record<string, string>>; readonly cwd?: string }
): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const stdio: StdioOptions = ["ignore", "pipe", "pipe", "pipe"]
      const env = { ...compileCache, ...options.env }
      return running(spawn(process.execPath, [...lifeline, ...args], { ...options, env, stdio }))
    }),
    (child) => Effect.andThen(child.send("SIGKILL"), child.exit)
  )

const running = (child: ChildProcess): Running => {
  const printed: Array<string> = []
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text) => printed.push(text))
  }
  const closed = Deferred.makeUnsafe<number | null>()
  child.once("close", (code) => Deferred.doneUnsafe(closed, Effect.succeed(code)))
  const isAlive = () => child.exitCode === null && child.signalCode === null
  return {
    pid: child.pid ?? -1,
    output: () => printed.join(""),
    send: (signal) => Effect.sync(() => void (isAlive() && child.kill(signal))),
    exit: Deferred.await(closed),
    isAlive,
    residentBytes: () => isAlive() ? residentBytesOf(child.pid ?? -1) : 0
  }
}

const residentBytesOf = (pid: number): number => {
  try {
    return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0)
  } catch {
    return 0
  }
}
