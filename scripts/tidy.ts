/**
 * The rules of docs/architecture.md that a compiler does not check. Prints every breach and exits 1 where there is
 * one. `scripts/tidy/exceptions.json` lists the files that may break a rule, with the reason; an entry that allows
 * more than there is fails, and `--shrink` rewrites the list without what is no longer needed.
 *
 * Usage: tidy.ts [--shrink] [folder of the repository]
 */
import * as path from "node:path"
import { check } from "./tidy/Check.ts"

const args = process.argv.slice(2)
const root = args.find((arg) => !arg.startsWith("--")) ?? path.dirname(import.meta.dirname)
const failures = check(path.resolve(root), { shrink: args.includes("--shrink") })
for (const failure of failures) process.stderr.write(`${failure}\n`)
process.exitCode = failures.length === 0 ? 0 : 1
