import { oneLine } from "@card-rewards/domain/ApiKey"
import { Config, Console, Effect, Layer, Logger, Path } from "effect"
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

/**
 * Resolves relative files from the folder in which npm was called: npm runs a command in the checkout, and has that
 * folder in `INIT_CWD`.
 */
const callersPath = Effect.gen(function*() {
  const path = yield* Path.Path
  const folder = yield* Config.withDefault(Config.String("INIT_CWD"), "")
  return Path.Path.of({ ...path, resolve: (...segments) => path.resolve(folder, ...segments) })
})

/** Prints each warning, such as that of a login without its role, as one line on stderr, and once for all cells. */
const warnings = (): Logger.Logger<unknown, void> => {
  const printed = new Set<string>()
  return Logger.make(({ fiber, logLevel, message }) => {
    const line = oneLine(`${message}`)
    if (logLevel !== "Warn" || printed.has(line)) return
    printed.add(line)
    fiber.getRef(Console.Console).error(line)
  })
}

/** Runs the command of these arguments. A failure prints one line on stderr; `codeOf` its exit is the exit code. */
export const commandLine = (args: ReadonlyArray<string>) =>
  Effect.flatMap(withoutShortFlags(args), Command.runWith(admin, { version: "0.0.0" })).pipe(
    Effect.provideServiceEffect(Path.Path, callersPath),
    Effect.tapCause((cause) => {
      const line = lineOf(cause)
      return line === undefined ? Effect.void : Console.error(line)
    }),
    Effect.provide(Layer.mergeAll(
      Logger.layer([warnings()]),
      CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }),
      CliOutput.layerPresenter(presenter)
    ))
  )
