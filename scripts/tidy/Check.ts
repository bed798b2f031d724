import * as fs from "node:fs"
import * as path from "node:path"
import { importCycle } from "./Cycles.ts"
import { docstring } from "./Docstrings.ts"
import { environment } from "./Environment.ts"
import { type Exception, judge } from "./Exceptions.ts"
import { fileLength, functionLength, lineLength } from "./Lengths.ts"
import { migrationList } from "./Migrations.ts"
import { documentedOperations } from "./Operations.ts"
import { packageDirection, unusedFile } from "./Packages.ts"
import { documentedFile } from "./Pages.ts"
import { readRepository } from "./Repository.ts"
import { retiredWord } from "./RetiredWords.ts"
import type { Rule } from "./Rule.ts"

const rules: ReadonlyArray<Rule> = [
  fileLength,
  functionLength,
  lineLength,
  importCycle,
  packageDirection,
  unusedFile,
  docstring,
  retiredWord,
  documentedFile,
  documentedOperations,
  environment,
  migrationList
]

/**
 * What must be fixed in the repository at `root`, a line each. With `shrink` the list of exceptions is rewritten
 * without what is no longer needed; it never grows.
 */
export const check = (root: string, { shrink = false }: { readonly shrink?: boolean } = {}): ReadonlyArray<string> => {
  const listFile = path.join(root, "scripts/tidy/exceptions.json")
  const exceptions: ReadonlyArray<Exception> = JSON.parse(fs.readFileSync(listFile, "utf8"))
  const repository = readRepository(root)
  const breaches = rules.flatMap((rule) => rule.check(repository).map((breach) => ({ ...breach, rule: rule.name })))
  const { failures, needed } = judge(breaches, exceptions)
  if (shrink) fs.writeFileSync(listFile, `${JSON.stringify(needed, null, 2)}\n`)
  return failures
}
