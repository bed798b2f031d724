/** `card-rewards`, the integrator's command line. */
import { oneLine } from "@card-rewards/domain/ApiKey"
import { Console, Effect, Layer, Logger } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import { examples } from "./CommandLine/Examples.ts"
import { lineOf } from "./CommandLine/Exit.ts"
import { listen } from "./CommandLine/Listen.ts"
import { platform } from "./CommandLine/Platform.ts"
import { trigger } from "./CommandLine/Trigger.ts"
import { verifyJournal } from "./CommandLine/VerifyJournal.ts"

const cardRewards = Command.make("card-rewards").pipe(
  Command.withDescription(
    "Work with card-rewards: receive webhooks on this machine, play purchases in the sandbox, verify the journal. " +
      "Exit codes: 0 success; 1 refused, or the service does not answer; 2 invalid usage"
  ),
  examples(
    ["listen --forward-to http://localhost:8080/webhooks", "Post each new event to a local server"],
    ["trigger purchase", "Cause one: a purchase earns a reward"],
    ["verify-journal --kept seals.ndjson", "Prove that the journal is the one of which these seals were kept"]
  ),
  Command.withSubcommands([listen, trigger, verifyJournal])
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
