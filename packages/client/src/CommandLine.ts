/** `card-rewards`, the integrator's command line. */
import { Console, Effect, Layer, Logger } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import { examples } from "./CommandLine/Examples.ts"
import { lineOf, oneLine } from "./CommandLine/Exit.ts"
import { listen } from "./CommandLine/Listen.ts"
import { platform } from "./CommandLine/Platform.ts"
import { trigger } from "./CommandLine/Trigger.ts"

const cardRewards = Command.make("card-rewards").pipe(
  Command.withDescription(
    "Develop against card-rewards: receive webhooks on this machine, and play purchases in the sandbox. Exit codes: " +
      "0 success; 1 refused, or the service does not answer; 2 invalid usage"
  ),
  examples(
    ["listen --forward-to http://localhost:8080/webhooks", "Post each new event to a local server"],
    ["trigger purchase", "Cause one: a purchase earns a reward"]
  ),
  Command.withSubcommands([listen, trigger])
)

/** Prints a usage error in two lines instead of the whole help. */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === "InvalidInvocation"
      ? Console.error(
        [
          ...event.errors.map(({ message }) => oneLine(message)),
          `See: ${["card-rewards", ...event.commandPath.slice(1)].join(" ")} --help`
        ].join("\n")
      )
      : CliOutput.defaultPresenter.present(event)
}

/**
 * Runs the command of these arguments. A failure prints one line on stderr; `codeOf` its exit is the exit code. No
 * output has an API key, or a signing secret that was not made for the session.
 */
export const commandLine = (args: ReadonlyArray<string>, version: string) =>
  Command.runWith(cardRewards, { version })(args).pipe(
    Effect.tapCause((cause) => {
      const line = lineOf(cause)
      return line === undefined ? Effect.void : Console.error(line)
    }),
    Effect.provide(Layer.mergeAll(
      platform,
      FetchHttpClient.layer,
      Logger.layer([]),
      CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }),
      CliOutput.layerPresenter(presenter)
    ))
  )
