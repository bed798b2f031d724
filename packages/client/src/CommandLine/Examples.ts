import { Command } from "effect/cli"

/** Adds examples of whole command lines to a command's help. */
export const examples = (...all: ReadonlyArray<readonly [line: string, description: string]>) =>
  Command.withExamples(all.map(([line, description]) => ({ command: `card-rewards ${line}`, description })))
