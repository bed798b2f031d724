import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Cause, Console, Effect, Layer, Logger } from "effect"
import { CliError, Command } from "effect/cli"
import { admin } from "./Commands.ts"

admin.pipe(
  Command.run({ version: "0.0.0" }),
  Effect.tapCause((cause) => CliError.isCliError(Cause.squash(cause)) ? Effect.void : Console.error(oneLine(cause))),
  Effect.provide(Layer.merge(NodeServices.layer, Logger.layer([]))),
  NodeRuntime.runMain({ disableErrorReporting: true })
)

/** What went wrong, as one line for a person. */
function oneLine(cause: Cause.Cause<unknown>): string {
  const error = Cause.squash(cause)
  return error instanceof Error ? error.message.split("\n")[0] ?? error.name : String(error)
}
