import * as path from "node:path"
import ts from "typescript-5"
import { forEachNode, lineOf, type Source } from "./Repository.ts"
import type { Rule } from "./Rule.ts"

interface RetiredWord {
  /** One word of an identifier, or several that follow each other, in lower case. */
  readonly words: string
  readonly use: string
  /** Only in files whose path begins with one of these; everywhere where there are none. */
  readonly folders: ReadonlyArray<string>
  /** Only where the identifier has no other words. */
  readonly isWhole: boolean
  /** Not as part of this standard term. */
  readonly except: string | undefined
}

/** Reads the table `| retired | use | where |` of docs/glossary.md, whose page says what the notation means. */
const readTable = (text: string): ReadonlyArray<RetiredWord> => {
  const [, table = ""] = text.split(/^\| retired \|.*\n\|.*\n/m)
  const rows = table.matchAll(/^\| (.*?) \| (.*?) \| ?(.*?) ?\|$/gm)
  return [...rows].flatMap(([, retired = "", use = "", where = ""]) =>
    [...retired.matchAll(/(`?)([a-z]+(?: [a-z]+)*)`?(?: \(except ([a-z ]+)\))?(?:, |$)/g)]
      .map(([, tick, words = "", except]) => ({
        words,
        use,
        folders: [...where.matchAll(/`([^`*]+)[*]?`/g)].map(([, folder = ""]) => folder),
        isWhole: tick !== "",
        except
      }))
  )
}

/** Checks the names that a file declares; the names of libraries are given. */
export const retiredWord: Rule = {
  name: "retired-word",
  check: ({ pages, sources }) => {
    const retired = readTable(pages.find(({ file }) => file === "docs/glossary.md")?.text ?? "")
    return sources.flatMap((source) =>
      retiredNames(source, retired).map((message) => ({ file: source.file, message })))
  }
}

const retiredNames = ({ file, tree }: Source, retired: ReadonlyArray<RetiredWord>): ReadonlyArray<string> => {
  const here = retired.filter(({ folders }) =>
    folders.length === 0 || folders.some((folder) => file.startsWith(folder)))
  const named = [{ name: path.basename(file).replace(/[.].*$/, ""), where: "the file's name" }]
  forEachNode(tree, (node) => {
    const name = declaredName(node)
    if (name !== undefined) named.push({ name: name.text, where: `line ${lineOf(tree, name.getStart(tree))}` })
  })
  return named.flatMap(({ name, where }) => {
    const words = wordsOf(name)
    return here.filter((word) => isIn(words, word))
      .map(({ use, words }) => `${name} (${where}): "${words}" is retired, use ${use}`)
  })
}

const isIn = (name: string, { except, isWhole, words }: RetiredWord): boolean =>
  (except === undefined || !name.includes(except)) &&
  (isWhole ? name === words : ` ${name} `.includes(` ${words} `))

/** `leaseEndpoints` and `LEASE_ENDPOINTS` as `lease endpoints`. */
const wordsOf = (name: string): string =>
  name.replaceAll(/([a-z\d])([A-Z])/g, "$1 $2").replaceAll(/([A-Z])([A-Z][a-z])/g, "$1 $2").replaceAll(/[_$.-]+/g, " ")
    .trim().toLowerCase()

const declaredName = (node: ts.Node): ts.Identifier | undefined => {
  if (ts.isImportSpecifier(node) || ts.isExportSpecifier(node)) {
    return node.propertyName === undefined ? undefined : identifier(node.name)
  }
  const declares = ts.isVariableDeclaration(node) || ts.isBindingElement(node) || ts.isParameter(node) ||
    ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) || ts.isPropertyDeclaration(node) || ts.isPropertySignature(node) ||
    ts.isMethodDeclaration(node) || ts.isMethodSignature(node) || ts.isPropertyAssignment(node) ||
    ts.isNamespaceImport(node) || ts.isNamespaceExport(node)
  return declares ? identifier(node.name) : undefined
}

const identifier = (node: ts.Node | undefined): ts.Identifier | undefined =>
  node !== undefined && ts.isIdentifier(node) ? node : undefined
