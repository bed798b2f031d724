import * as path from "node:path"
import { isInSrc, isMain, isTest, packageOf, resolveImport, type Repository } from "./Repository.ts"
import { perSource, type Rule } from "./Rule.ts"

/** Which packages a package may import. Tests may also import bundle, dev-postgres and testing. */
const allowedImports: Readonly<Record<string, ReadonlyArray<string>>> = {
  domain: [],
  core: ["domain"],
  api: ["core", "domain"],
  worker: ["core", "domain"],
  admin: ["core", "domain", "dev-postgres"],
  client: ["domain"],
  "dev-postgres": [],
  bundle: [],
  testing: ["api", "bundle", "client", "core", "dev-postgres", "domain", "worker"],
  e2e: ["client", "domain", "dev-postgres", "testing"],
  console: ["client", "domain", "testing"],
  bench: ["api", "bundle", "core", "domain", "dev-postgres", "worker"]
}

/** Files that need no importer, besides `main.ts`, tests and `scripts/*`: they are started, or are an interface. */
const entryPoints: ReadonlyArray<string> = [
  "packages/client/src/index.ts",
  "packages/client/src/promise.ts",
  "packages/console/build.ts",
  "packages/console/vite.config.ts",
  "packages/dev-postgres/src/vitestSetup.ts",
  "packages/e2e/src/hostile/innocentProcess.ts",
  "packages/testing/src/shiftedClock.ts",
  "packages/worker/test/takeover/workerProcess.ts"
]

/** Packages whose `src` is for tests only. */
const testSupport: ReadonlyArray<string> = ["e2e", "testing"]

export const isTestSupport = (file: string): boolean => testSupport.includes(packageOf(file) ?? "")

export const packageDirection = perSource("package-direction", ({ file, imports }) =>
  imports.flatMap((specifier) => {
    const from = packageOf(file)
    if (from === undefined) return []
    if (specifier.startsWith(".") && packageOf(`${path.posix.join(path.posix.dirname(file), specifier)}/`) !== from) {
      return [`the relative import "${specifier}" leaves the package`]
    }
    const target = /^@card-rewards\/([^/]+)/.exec(specifier)?.[1]
    if (target === undefined || target === from || allowedImports[from]?.includes(target) === true) return []
    if (isTest(file) && ["bundle", "dev-postgres", "testing"].includes(target)) return []
    return [`${from} may not import ${target}`]
  }))

/** Code needs an importer that is no test; test support, in `test` folders too, needs any. */
export const unusedFile: Rule = {
  name: "unused-file",
  check: ({ sources }) => {
    const byAny = importedBy(sources)
    const byCode = importedBy(sources.filter(({ file }) => !isTest(file)))
    return sources
      .map(({ file }) => file)
      .filter((file) => !isEntryPoint(file))
      .filter((file) => !(isInSrc(file) && !isTestSupport(file) ? byCode : byAny).has(file))
      .map((file) => ({ file, message: "no file imports it" }))
  }
}

const isEntryPoint = (file: string): boolean =>
  isMain(file) || /[.]test[.]tsx?$/.test(file) || /^scripts\/[^/]+$/.test(file) || entryPoints.includes(file)

const importedBy = (importers: Repository["sources"]): ReadonlySet<string | undefined> =>
  new Set(importers.flatMap(({ file, imports }) => imports.map((specifier) => resolveImport(file, specifier))))
