import * as fs from "node:fs"
import * as path from "node:path"
import ts from "typescript-5"

/** A TypeScript or JavaScript file of `packages` or `scripts`. Generated files are not read. */
export interface Source {
  /** Relative to the root, with slashes. */
  readonly file: string
  readonly text: string
  readonly tree: ts.SourceFile
  readonly imports: ReadonlyArray<string>
}

export interface Repository {
  readonly root: string
  readonly sources: ReadonlyArray<Source>
  /** Markdown files: README.md, those of `docs`, and each package's. */
  readonly pages: ReadonlyArray<{ readonly file: string; readonly text: string }>
}

export const readRepository = (root: string): Repository => ({
  root,
  sources: list(root, "{packages,scripts}/**/*.{ts,tsx,mjs}")
    .filter((file) => !file.includes("/generated/"))
    .map((file) => readSource(root, file)),
  pages: list(root, "{*.md,docs/**/*.md,packages/*/*.md}").map((file) => ({ file, text: read(root, file) }))
})

const list = (root: string, pattern: string): ReadonlyArray<string> =>
  fs.globSync(pattern, { cwd: root, exclude: (name) => name === "node_modules" || name === "dist" })
    .map((file) => file.replaceAll(path.sep, "/"))
    .toSorted()

const read = (root: string, file: string): string => fs.readFileSync(path.join(root, file), "utf8")

const readSource = (root: string, file: string): Source => {
  const text = read(root, file)
  const tree = ts.createSourceFile(file, text, ts.ScriptTarget.Latest)
  return { file, text, tree, imports: importsIn(tree) }
}

/** Every node below `node`, parents before children. */
export const forEachNode = (node: ts.Node, visit: (node: ts.Node) => void): void =>
  ts.forEachChild(node, (child) => {
    visit(child)
    forEachNode(child, visit)
  })

/** Static, type-only, dynamic and `import("…")` type imports, re-exports, and modules named by `new URL("./….ts")`. */
const importsIn = (tree: ts.SourceFile): ReadonlyArray<string> => {
  const found: Array<string> = []
  forEachNode(tree, (node) => {
    const specifier = specifierOf(node)
    if (specifier !== undefined && ts.isStringLiteralLike(specifier)) found.push(specifier.text)
  })
  return found
}

const specifierOf = (node: ts.Node): ts.Node | undefined => {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return node.moduleSpecifier
  if (ts.isImportTypeNode(node)) return ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) return node.arguments[0]
  return ts.isNewExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === "URL" ?
    relativeModule(node.arguments?.[0]) :
    undefined
}

const relativeModule = (node: ts.Node | undefined): ts.Node | undefined =>
  node !== undefined && ts.isStringLiteralLike(node) && /^[.].*[.]ts$/.test(node.text) ? node : undefined

/** The file an import means, where it is one of the repository's. */
export const resolveImport = (file: string, specifier: string): string | undefined => {
  const ours = /^@card-rewards\/([^/]+)\/(.+)$/.exec(specifier)
  if (ours !== null) return `packages/${ours[1]}/src/${ours[2]}.ts`
  return specifier.startsWith(".") ? path.posix.join(path.posix.dirname(file), specifier) : undefined
}

export const packageOf = (file: string): string | undefined => /^packages\/([^/]+)\//.exec(file)?.[1]

export const isInSrc = (file: string): boolean => /^packages\/[^/]+\/src\//.test(file)

export const isMain = (file: string): boolean => /^main[.]tsx?$/.test(path.basename(file))

export const isTest = (file: string): boolean => /^(?:packages\/[^/]+|scripts)\/test\//.test(file)

/** 1-based, for messages. */
export const lineOf = (tree: ts.SourceFile, position: number): number =>
  tree.getLineAndCharacterOfPosition(position).line + 1
