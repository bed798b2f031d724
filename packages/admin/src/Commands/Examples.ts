import { Command } from "effect/cli"

/** The command line in a checkout. With `-s` npm prints no lines of its own. */
export const invocation = "npm run -s admin --"

/** Adds an example of a whole command line to a command's help. */
export const example = (line: string, description: string) =>
  Command.withExamples([{ command: `${invocation} ${line}`, description }])
