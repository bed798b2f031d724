import { commandLine } from "@card-rewards/client/CommandLine"
import { codeOf } from "@card-rewards/client/CommandLine/Exit"
import { ConfigProvider, Console, Effect, Fiber, type Scope } from "effect"

/** A command of `card-rewards` that runs in this process. */
export interface RunningCommand {
  /** Its output so far. */
  readonly printed: { readonly stdout: string; readonly stderr: string }
  /** Its exit code, when it ends. */
  readonly exit: Effect.Effect<number>
  /** Ends it as Ctrl-C does. */
  readonly interrupt: Effect.Effect<void>
}

/** Starts a command with these variables alone. It is interrupted when the scope closes. */
export const start = (
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {}
): Effect.Effect<RunningCommand, never, Scope.Scope> =>
  Effect.gen(function*() {
    const printed = { stdout: "", stderr: "" }
    const fiber = yield* commandLine(args, "1.2.3").pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env })),
      Effect.provideService(Console.Console, {
        ...globalThis.console,
        log: (line: string) => printed.stdout += `${line}\n`,
        error: (line: string) => printed.stderr += `${line}\n`
      }),
      Effect.forkScoped
    )
    return { printed, exit: Effect.map(Fiber.await(fiber), codeOf), interrupt: Fiber.interrupt(fiber) }
  })

/** Runs a command to its end. */
export const run = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  Effect.scoped(Effect.gen(function*() {
    const command = yield* start(args, env)
    return { status: yield* command.exit, ...command.printed }
  }))
