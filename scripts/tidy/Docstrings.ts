import ts from "typescript-5"
import { isInSrc, lineOf, packageOf } from "./Repository.ts"
import { perSource } from "./Rule.ts"

const packagesWithDocstrings: ReadonlyArray<string> = ["domain", "core", "client"]

/**
 * A type that shares its name with a documented value needs no docstring of its own, nor the other way round. A
 * docstring covers the declarations below it up to the next empty line.
 */
export const docstring = perSource("docstring", ({ file, tree }) => {
  if (!isInSrc(file) || !packagesWithDocstrings.includes(packageOf(file) ?? "")) return []
  const exported = tree.statements.filter(isExported)
  const documented = new Set(tree.statements.filter((_, index) => isDocumented(tree, index)).flatMap(namesOf))
  return exported.flatMap((node) =>
    namesOf(node).filter((name) => !documented.has(name))
      .map((name) => `${name} at line ${lineOf(tree, node.getStart(tree))} is exported without a docstring`)
  )
})

const isExported = (node: ts.Statement): boolean =>
  ts.canHaveModifiers(node) &&
  (ts.getModifiers(node) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)

const namesOf = (node: ts.Statement): ReadonlyArray<string> => {
  if (ts.isVariableStatement(node)) {
    return node.declarationList.declarations.flatMap(({ name }) => ts.isIdentifier(name) ? [name.text] : [])
  }
  const isNamed = ts.isFunctionDeclaration(node) || ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) || ts.isModuleDeclaration(node)
  return isNamed && node.name !== undefined ? [node.name.text] : []
}

const isDocumented = (tree: ts.SourceFile, index: number): boolean => {
  const node = tree.statements[index]
  if (node === undefined) return false
  if (hasDocstring(tree, node)) return true
  const followsDirectly = !/\n\s*\n/.test(tree.text.slice(node.pos, node.getStart(tree)))
  return followsDirectly && index > 0 && isDocumented(tree, index - 1)
}

const hasDocstring = (tree: ts.SourceFile, node: ts.Statement): boolean =>
  (ts.getLeadingCommentRanges(tree.text, node.pos) ?? []).some(({ pos }) => tree.text.startsWith("/**", pos))
