import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Console, Effect, Exit, Layer, Logger, References } from "effect"
import { setFlagsFromString } from "node:v8"
import * as Observability from "./Observability.ts"
import * as Settings from "./Settings.ts"

/**
 * Runs a process with the logging that the environment configures; its error line and telemetry have its name. A
 * failure is one line on standard error and exit code 1. SIGTERM and SIGINT shut the process down gracefully, with exit
 * code 0. Lines that cannot be written are lost.
 */
export const run = <A, E extends { readonly message: string }>(
  work: Effect.Effect<A, E>,
  name: string
): void => {
  startObjectsYoung()
  limitGarbage()
  outliveOutput()
  NodeRuntime.runMain(logged(work, name), {
    disableErrorReporting: true,
    teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
  })
}

/**
 * What Node is to be started with for the api and the worker; the other settings of V8 are made here. By default V8
 * lets the young generation grow to twice 64 MiB, most of it garbage. Decision 20 has what less of it costs.
 */
export const nodeOptions: ReadonlyArray<string> = ["--max-semi-space-size=16"]

/**
 * Lets V8 make every object in the young generation. By default, once nearly all objects of one literal survived a
 * collection, V8 makes all later ones in the old generation, for the life of the process. There they keep all that they
 * point to, such as a finished request, until a full collection (decision 13).
 */
const startObjectsYoung = (): void => setFlagsFromString("--no-allocation-site-pretenuring")

/**
 * Lets V8 collect the old generation once it is 1.75 times as large as what was alive after the last collection. By
 * default it waits for up to four times that where a process makes much garbage.
 */
const limitGarbage = (): void => setFlagsFromString("--heap-growing-percent=75")

/** Without a listener, a full disk or a reader of the log that has ended would end the process. */
const outliveOutput = (): void => {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined)
}

const logged = <A, E extends { readonly message: string }>(work: Effect.Effect<A, E>, name: string) =>
  Effect.gen(function*() {
    const { format, level } = yield* Settings.logging({ terminal: process.stdout.isTTY })
    return yield* work.pipe(
      Effect.provide(
        Observability.layer(name).pipe(
          Layer.provideMerge(Logger.layer([format === "json" ? Observability.jsonLogger : Logger.consolePretty()]))
        )
      ),
      Effect.provideService(References.MinimumLogLevel, minimumLevels[level])
    )
  }).pipe(
    Effect.tapCause((cause) =>
      Cause.hasInterruptsOnly(cause) ? Effect.void : Console.error(`card-rewards ${name}: ${lineOf(cause)}`)
    )
  )

const minimumLevels = {
  trace: "Trace",
  debug: "Debug",
  info: "Info",
  warn: "Warn",
  error: "Error",
  fatal: "Fatal"
} as const

/** The message of a failure; for a defect, its stack. */
const lineOf = (cause: Cause.Cause<{ readonly message: string }>): string => {
  const failure = cause.reasons.find((reason) => reason._tag === "Fail")
  return failure === undefined ? Cause.pretty(cause) : failure.error.message
}
