import { Clock, Console, Duration, Effect, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { fileURLToPath } from "node:url"

const firstPause = Duration.millis(250)
const longestPause = Duration.seconds(10)
const steadyAfter = Duration.seconds(30)
/** An api may finish what is in flight for 10 s. */
const stopPatience = Duration.seconds(12)
const root = fileURLToPath(new URL("../..", import.meta.url))

/**
 * Runs `packages/<name>/src/main.ts` until the scope closes, and starts it again, after growing pauses, whenever it
 * ends by itself. It is asked to stop with SIGTERM; the pipe that it gets (see lifeline.mjs) tells it when this
 * process is gone without having asked.
 */
export const keepRunning = (name: string, env: Readonly<Record<string, string>>): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function*() {
    let pause = firstPause
    while (true) {
      const startedAt = yield* Clock.currentTimeMillis
      const how = yield* runOnce(`packages/${name}/src/main.ts`, env)
      const livedMillis = (yield* Clock.currentTimeMillis) - startedAt
      if (livedMillis > Duration.toMillis(steadyAfter)) pause = firstPause
      yield* Console.error(`The ${name} ended (${how}); starting it again in ${Duration.format(pause)}`)
      yield* Effect.sleep(pause)
      pause = Duration.min(Duration.times(pause, 2), longestPause)
    }
  }).pipe(Effect.forkScoped, Effect.asVoid)

/** Runs an entry to its end, and tells how it ended. */
export const runOnce = (entry: string, env: Readonly<Record<string, string>>): Effect.Effect<string> =>
  Effect.acquireUseRelease(Effect.sync(() => launch(entry, env)), ended, stop)

const launch = (entry: string, env: Readonly<Record<string, string>>): ChildProcess => {
  const child = spawn(process.execPath, ["--import", "./scripts/lifeline.mjs", entry], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit", "pipe"]
  })
  child.stdio[3]?.on("error", () => undefined)
  return child
}

const hasEnded = (child: ChildProcess): boolean =>
  child.exitCode !== null || child.signalCode !== null || child.pid === undefined

const ended = (child: ChildProcess): Effect.Effect<string> =>
  Effect.callback((resume) => {
    const tell = () => resume(Effect.succeed(child.signalCode ?? `code ${child.exitCode ?? "none"}`))
    if (hasEnded(child)) return tell()
    child.once("exit", tell).once("error", tell)
  })

const stop = (child: ChildProcess): Effect.Effect<void> =>
  Effect.gen(function*() {
    if (hasEnded(child)) return
    yield* Effect.sync(() => child.kill("SIGTERM"))
    yield* Effect.timeoutOrElse(ended(child), {
      duration: stopPatience,
      orElse: () => Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), ended(child))
    })
  })
