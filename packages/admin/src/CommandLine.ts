import { oneLine } from "@card-rewards/domain/ApiKey"
import { Console, Effect, Layer, Logger } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag } from "effect/cli"
import { admin } from "./Commands.ts"
import { invocation } from "./Commands/Examples.ts"
import { lineOf, Misused } from "./Exit.ts"

/** Prints a usage error in two lines instead of the whole help. */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === "InvalidInvocation"
      ? Console.error(
        [
          ...event.errors.map(({ message }) => oneLine(message)),
          `See: ${[invocation, ...event.commandPath.slice(1)].join(" ")} --help`
        ].join("\n")
      )
      : CliOutput.defaultPresenter.present(event)
}

/**
 * A reference such as `-aX9v` would be taken for short flags, and with `-v` among them print the version, and succeed.
 * No flag of a command has a short name.
 */
const withoutShortFlags = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
  const end = args.indexOf("--")
  const short = (end === -1 ? args : args.slice(0, end)).find((arg) => /^-[^-]./u.test(arg))
  if (short === undefined) return args
  return yield* new Misused({
    message: `${oneLine(short)} begins with "-": put "--" before the arguments, behind all flags`
  })
})

/** Runs the command of these arguments. A failure prints one line on stderr; `codeOf` its exit is the exit code. */
export const commandLine = (args: ReadonlyArray<string>) =>
  Effect.flatMap(withoutShortFlags(args), Command.runWith(admin, { version: "0.0.0" })).pipe(
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
