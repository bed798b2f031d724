import { root } from "@card-rewards/e2e/Processes"
import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "yaml"

interface Dependencies {
  readonly dependencies?: Readonly<Record<string, string | { readonly version: string }>>
  readonly optionalDependencies?: Readonly<Record<string, string | { readonly version: string }>>
}

interface Lockfile {
  readonly importers: Readonly<Record<string, Dependencies>>
  readonly snapshots: Readonly<Record<string, Dependencies>>
}

const file = (name: string) => readFileSync(join(root, name), "utf8")
const lockfile: Lockfile = parse(file("pnpm-lock.yaml"))

/** The names of all that a workspace package brings along in production. */
const broughtBy = (importer: string, found = new Set<string>(), visited = new Set<string>()): ReadonlySet<string> => {
  const visit = (key: string, { dependencies, optionalDependencies }: Dependencies): void => {
    if (visited.has(key)) return
    visited.add(key)
    for (const [name, one] of Object.entries({ ...dependencies, ...optionalDependencies })) {
      const version = typeof one === "string" ? one : one.version
      if (version.startsWith("link:")) {
        const linked = join(importer, version.slice("link:".length))
        broughtBy(linked, found, visited)
        continue
      }
      found.add(name)
      visit(`${name}@${version}`, lockfile.snapshots[`${name}@${version}`] ?? assert.fail(`no ${name}@${version}`))
    }
  }
  visit(importer, lockfile.importers[importer] ?? assert.fail(`no ${importer}`))
  return found
}

it("api and worker bring along what docs/operations.md lists, and nothing else", () => {
  const section = file("docs/operations.md").split(/^## /m).find((part) => part.startsWith("Dependencies\n"))
  const listed = [...(section ?? "").matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name)
  const brought = new Set(["packages/api", "packages/worker"].flatMap((importer) => [...broughtBy(importer)]))
  assert.isAbove(brought.size, 5)
  assert.deepStrictEqual(listed.toSorted(), [...brought].toSorted())
})
