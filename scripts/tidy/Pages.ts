import * as fs from "node:fs"
import * as path from "node:path"
import { packageOf, type Repository } from "./Repository.ts"
import type { Rule } from "./Rule.ts"

/**
 * A page names only files that exist: targets of its links, and source paths in backticks. `core/Batcher.ts` stands for
 * `packages/core/src/Batcher.ts`, and `Budget.ts` for any file of that name.
 */
export const documentedFile: Rule = {
  name: "documented-file",
  check: (repository) => {
    const exists = existence(repository)
    return repository.pages.flatMap((page) => {
      const named = [...linksIn(page.text, path.posix.dirname(page.file)), ...pathsIn(page.text)]
      return [...new Set(named)].filter((name) => !exists(name, packageOf(page.file)))
        .map((name) => ({ file: page.file, message: `names ${name}, which does not exist` }))
    })
  }
}

const linksIn = (text: string, folder: string): ReadonlyArray<string> =>
  [...text.matchAll(/\]\((?!\w+:)([^)#\s]+)/g)].map(([, target = ""]) => path.posix.join(folder, target))

/** Backticked words without spaces that begin like a source path or end like a source file. */
const pathsIn = (text: string): ReadonlyArray<string> =>
  [...withoutCodeBlocks(text).matchAll(/`([\w.@*-]+(?:\/[\w.@*-]+)*\/?)`/g)]
    .map(([, word = ""]) => word)
    .filter((word) => /^(?:packages|scripts|docs|deploy)\//.test(word) || /\w[.]tsx?$/.test(word))

const withoutCodeBlocks = (text: string): string => text.replaceAll(/^```[^]*?^```/gm, "")

const existence = ({ root, sources }: Repository) => {
  const files = sources.map(({ file }) => file)
  return (name: string, ofPackage: string | undefined): boolean => {
    const [first = "", ...rest] = name.split("/")
    const candidates = [name, `packages/${first}/src/${rest.join("/")}`, `packages/${ofPackage ?? first}/${name}`]
    if (candidates.some((candidate) => isPresent(path.join(root, candidate)))) return true
    return /[.]tsx?$/.test(name) && files.some((file) => file.endsWith(`/${name}`))
  }
}

const isPresent = (file: string): boolean => file.includes("*") ? fs.globSync(file).length > 0 : fs.existsSync(file)
