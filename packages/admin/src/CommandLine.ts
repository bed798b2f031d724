import { Console, Effect, Layer, Logger } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag } from "effect/cli"
import { admin } from "./Commands.ts"
import { invocation } from "./Commands/Examples.ts"
import { lineOf, oneLine } from "./Exit.ts"

/** Prints a usage error in two lines instead of the whole help. */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === "InvalidInvocation"
      ? Console.error(
        [
          ...event.errors.map(({ message }) => masked(oneLine(message))),
          `See: ${[invocation, ...event.commandPath.slice(1)].join(" ")} --help`
        ].join("\n")
      )
      : CliOutput.defaultPresenter.present(event)
}

/** Without the keys and signing secrets that were typed in the place of their names. */
const masked = (line: string): string => line.replace(/(service_(?:sk|whsec)_)[^\s"]+/g, "$1…")

/** Runs the command of these arguments. A failure prints one line on stderr; `codeOf` its exit is the exit code. */
export const commandLine = (args: ReadonlyArray<string>) =>
  Command.runWith(admin, { version: "0.0.0" })(args).pipe(
    Effect.tapCause((cause) => {
      const line = lineOf(cause)
      return line === undefined ? Effect.void : Console.error(line)
    }),
    Effect.provide(Layer.mergeAll(
      Logger.layer([]),
      CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }),
      CliOutput.layerPresenter(presenter)
    ))
  )
