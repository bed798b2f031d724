import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect } from "effect"
import { commandLine } from "./CommandLine.ts"
import { codeOf } from "./Exit.ts"
import { Screen } from "./Screen.ts"

/** stderr, if it is a terminal that can move its cursor. Some terminals report a width of 0. */
const screen = process.stderr.isTTY && process.env["TERM"] !== "dumb"
  ? { columns: process.stderr.columns || 80, write: (text: string) => process.stderr.write(text) }
  : undefined

commandLine(process.argv.slice(2)).pipe(
  Effect.provideService(Screen, screen),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain({ disableErrorReporting: true, teardown: (exit, onExit) => onExit(codeOf(exit)) })
)
