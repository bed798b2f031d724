import { Command } from "effect/cli"

/** How the command line is called from a checkout; `-s` keeps npm's own lines out of the output. */
export const invocation = "npm run -s admin --"

/** Adds an example of a whole command line to a command's help. */
export const example = (line: string, description: string) =>
  Command.withExamples([{ command: `${invocation} ${line}`, description }])
