import { bundleOf, type Program } from "@card-rewards/bundle/Bundle"
import { nodeOptions } from "@card-rewards/core/Process"
import { Clock, Console, Duration, Effect, type Fiber, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { fileURLToPath } from "node:url"

const firstPause = Duration.millis(250)
const longestPause = Duration.seconds(10)
const stableAfter = Duration.seconds(30)
/** Longer than the 10 s in which an api finishes its requests in flight. */
const stopTimeout = Duration.seconds(12)
const root = fileURLToPath(new URL("../..", import.meta.url))

/**
 * Runs a program's bundle until the scope closes, and restarts it after growing pauses whenever it ends by itself.
 * Before each restart `check` runs; the returned fiber fails with its error. Closing the scope sends SIGTERM. If this
 * process is killed, the child notices by its pipe (see lifeline.mjs) and ends.
 */
export const keepRunning = <E>(
  program: Program,
  env: Readonly<Record<string, string>>,
  check: Effect.Effect<void, E>
): Effect.Effect<Fiber.Fiber<never, E>, never, Scope.Scope> =>
  Effect.gen(function*() {
    // here, so that its failure is this effect's
    const bundle = yield* Effect.promise(() => bundleOf(program))
    const run = Effect.gen(function*() {
      let pause = firstPause
      while (true) {
        const startedAt = yield* Clock.currentTimeMillis
        const end = yield* runOnce(bundle, env)
        const aliveMillis = (yield* Clock.currentTimeMillis) - startedAt
        yield* check
        if (aliveMillis > Duration.toMillis(stableAfter)) pause = firstPause
        yield* Console.error(`The ${program} ended (${end}); starting it again in ${Duration.format(pause)}`)
        yield* Effect.sleep(pause)
        pause = Duration.min(Duration.times(pause, 2), longestPause)
      }
    })
    return yield* Effect.forkScoped(run)
  })

/** Runs an entry to its end; see {@link ended}. */
export const runOnce = (entry: string, env: Readonly<Record<string, string>>): Effect.Effect<string> =>
  Effect.acquireUseRelease(Effect.sync(() => launch(entry, env)), ended, (child) => stop(child, stopTimeout))

const launch = (entry: string, env: Readonly<Record<string, string>>): ChildProcess => {
  const child = spawn(process.execPath, [...nodeOptions, "--import", "./scripts/lifeline.mjs", entry], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit", "pipe"]
  })
  child.stdio[3]?.on("error", () => undefined)
  return child
}

const hasEnded = (child: ChildProcess): boolean =>
  child.exitCode !== null || child.signalCode !== null || child.pid === undefined

/** Waits for the end of a process; succeeds with its exit code, as `code 0`, or with the signal that ended it. */
export const ended = (child: ChildProcess): Effect.Effect<string> =>
  Effect.callback((resume) => {
    const finish = () => resume(Effect.succeed(child.signalCode ?? `code ${child.exitCode ?? "none"}`))
    if (hasEnded(child)) return finish()
    child.once("exit", finish).once("error", finish)
  })

/** Ends a process by SIGTERM, and by SIGKILL where that takes longer than the timeout. */
export const stop = (child: ChildProcess, timeout: Duration.Duration): Effect.Effect<void> =>
  Effect.gen(function*() {
    if (hasEnded(child)) return
    yield* Effect.sync(() => child.kill("SIGTERM"))
    yield* Effect.timeoutOrElse(ended(child), {
      duration: timeout,
      orElse: () => Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), ended(child))
    })
  })
