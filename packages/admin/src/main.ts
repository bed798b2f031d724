import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, type Exit } from "effect"
import { commandLine } from "./CommandLine.ts"
import { codeOf } from "./Exit.ts"
import { Screen } from "./Screen.ts"

/** stderr, if it is a terminal that can move its cursor. Some terminals report a width of 0. */
const screen = process.stderr.isTTY && process.env["TERM"] !== "dumb"
  ? { columns: process.stderr.columns || 80, write: (text: string) => process.stderr.write(text) }
  : undefined

/** Such as on a full disk: what was to be printed may have been a new key. */
let unwritten: Error | undefined
process.stdout.on("error", (error) => {
  if (unwritten === undefined) process.stderr.write(`The output could not be written: ${error.message}\n`)
  unwritten = error
})

/** Once the errors of the output are known. */
const teardown = (exit: Exit.Exit<unknown, unknown>, onExit: (code: number) => void) =>
  void setImmediate(() => onExit(codeOf(exit) || (unwritten === undefined ? 0 : 1)))

commandLine(process.argv.slice(2)).pipe(
  Effect.provideService(Screen, screen),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain({ disableErrorReporting: true, teardown })
)
