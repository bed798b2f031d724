import * as fs from "node:fs"
import * as path from "node:path"
import ts from "typescript-5"
import { forEachNode, type Repository, type Source } from "./Repository.ts"
import type { Rule } from "./Rule.ts"

const file = "docs/operations.md"

/** What an operator meets by name: each kind as the code defines it, and as the page lists it. */
interface Inventory {
  readonly kind: string
  readonly defined: ReadonlyArray<string>
  readonly listed: ReadonlyArray<string>
}

/**
 * docs/operations.md lists every environment variable, step of a worker, metric, alert and operator's command that the
 * code defines, and no other. The npm scripts that any page tells a reader to run exist.
 */
export const documentedOperations: Rule = {
  name: "documented-operations",
  check: (repository) => {
    const text = repository.pages.find((page) => page.file === file)?.text
    const inventories = text === undefined ? [] : inventoriesOf(repository, text)
    return [...inventories.flatMap(differences).map((message) => ({ file, message })), ...missingScripts(repository)]
  }
}

const inventoriesOf = ({ root, sources }: Repository, page: string): ReadonlyArray<Inventory> => [
  { kind: "variable", defined: variables(sources), listed: named(page, "variable", /^[A-Z_]+$/) },
  { kind: "step", defined: steps(sources), listed: named(page, "step", /^[A-Z][A-Za-z ]+$/) },
  { kind: "metric", defined: metrics(sources), listed: named(page, "metric", /^[a-z_.]+$/) },
  { kind: "alert", defined: alerts(root), listed: named(page, "alert", /^CardRewards/) },
  { kind: "command", defined: commands(sources), listed: named(page, "command", /^(?!npm )[a-z ]+$/) }
]

const differences = ({ defined, kind, listed }: Inventory): ReadonlyArray<string> => [
  ...defined.filter((name) => !listed.includes(name)).map((name) => `does not list the ${kind} ${name}`),
  ...listed.filter((name) => !defined.includes(name)).map((name) => `lists the ${kind} ${name}, which does not exist`)
]

/** The backticked words of this form in the first column of the tables whose first heading is `heading`. */
const named = (page: string, heading: string, form: RegExp): ReadonlyArray<string> =>
  [...page.matchAll(new RegExp(`^\\| ${heading} \\|.*\\n\\| ---.*\\n((?:\\|.*\\n)*)`, "gm"))]
    .flatMap(([, rows = ""]) => rows.split("\n").map((row) => row.split(" | ")[0] ?? ""))
    .flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, word = ""]) => word))
    .filter((word) => form.test(word))

/** Names of settings, in the code that an operator runs. */
const variables = (sources: ReadonlyArray<Source>): ReadonlyArray<string> =>
  unique(
    sources.filter((source) =>
      /^(?:packages\/(?:admin|api|core|dev-postgres|worker)\/src|scripts\/start)\//.test(source.file)
    ).flatMap((source) => argumentsOf(source, /^(?:setting|required|optional|limit|String)$/))
      .filter((text) => /^[A-Z][A-Z_]+$/.test(text))
  )

/** Names of the steps that a worker repeats, without those that have a number. */
const steps = (sources: ReadonlyArray<Source>): ReadonlyArray<string> =>
  unique(
    sources.filter((source) => source.file.startsWith("packages/worker/src/"))
      .flatMap((source) => argumentsOf(source, /^(?:run|layer)$/))
      .filter((text) => /^[A-Z][A-Za-z ]+$/.test(text))
  )

const metrics = (sources: ReadonlyArray<Source>): ReadonlyArray<string> =>
  unique(
    sources.filter((source) => /^packages\/(?:api|core|worker)\/src\//.test(source.file))
      .flatMap((source) => argumentsOf(source, /^(?:counter|gauge|durations)$/))
      .filter((text) => /^[a-z_]+(?:\.[a-z_]+)+$/.test(text))
      .map((name) => /^(?:card_rewards|http)\./.test(name) ? name : `card_rewards.${name}`)
  )

const alerts = (root: string): ReadonlyArray<string> =>
  fs.globSync("deploy/prometheus/*.yaml", { cwd: root })
    .flatMap((name) => [...fs.readFileSync(path.join(root, name), "utf8").matchAll(/- alert: (\w+)/g)])
    .map(([, name = ""]) => name)

/**
 * Commands without subcommands, with the name of their group: a group is made in the file of its commands. One that
 * changes something has its whole name.
 */
const commands = (sources: ReadonlyArray<Source>): ReadonlyArray<string> =>
  sources.filter((source) => source.file.startsWith("packages/admin/src/Commands/")).flatMap((source) => {
    const made = argumentsOf(source, /^make$/)
    const group = source.text.includes("withSubcommands") ? made.at(-1) : undefined
    const reading = group === undefined ? made : made.slice(0, -1).map((name) => `${group} ${name}`)
    return [...reading, ...argumentsOf(source, /^changing$/)]
  })

/** The string literals among the arguments of calls of functions of these names. */
const argumentsOf = ({ tree }: Source, name: RegExp): ReadonlyArray<string> => {
  const found: Array<string> = []
  forEachNode(tree, (node) => {
    if (!ts.isCallExpression(node)) return
    const callee = ts.isPropertyAccessExpression(node.expression) ? node.expression.name : node.expression
    if (!ts.isIdentifier(callee) || !name.test(callee.text)) return
    found.push(...node.arguments.filter(ts.isStringLiteral).map(({ text }) => text))
  })
  return found
}

const unique = (names: ReadonlyArray<string>): ReadonlyArray<string> => [...new Set(names)]

const missingScripts = ({ pages, root }: Repository) => {
  const manifest = path.join(root, "package.json")
  if (!fs.existsSync(manifest)) return []
  const { scripts = {} } = JSON.parse(fs.readFileSync(manifest, "utf8"))
  return pages.flatMap((page) =>
    unique([...page.text.matchAll(/npm run (?:-s )?([a-z][\w:]*)/g)].map(([, name = ""]) => name))
      .filter((name) => !(name in scripts))
      .map((name) => ({ file: page.file, message: `runs the script ${name}, which package.json lacks` }))
  )
}
