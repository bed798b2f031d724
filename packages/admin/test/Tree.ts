import { admin } from "@card-rewards/admin/Commands"
import type { Command } from "effect/cli"

interface Entry {
  readonly path: ReadonlyArray<string>
  readonly command: Command.Command.Any
  readonly isLeaf: boolean
}

const tree = (command: Command.Command.Any, path: ReadonlyArray<string> = []): ReadonlyArray<Entry> => [
  { path, command, isLeaf: command.subcommands.length === 0 },
  ...command.subcommands.flatMap(({ commands }) => commands.flatMap((inner) => tree(inner, [...path, inner.name])))
]

/** All commands with the words that name them. */
export const all = tree(admin)
