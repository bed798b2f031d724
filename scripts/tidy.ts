/**
 * The rules of docs/architecture.md that neither the compiler nor the linter checks: which package may import which,
 * who reads the environment, that every file is imported and every migration listed. Prints every breach, and exits 1
 * where there is one.
 */
import * as fs from "node:fs"
import * as path from "node:path"

/** Which packages a package may import. Tests may also import dev-postgres and testing. */
const allowedImports: Readonly<Record<string, ReadonlyArray<string>>> = {
  domain: [],
  core: ["domain"],
  api: ["core", "domain"],
  worker: ["core", "domain"],
  admin: ["core", "domain", "dev-postgres"],
  client: ["domain"],
  "dev-postgres": [],
  testing: ["api", "client", "core", "dev-postgres", "domain", "worker"],
  e2e: ["client", "domain", "dev-postgres", "testing"],
  console: ["client", "domain", "testing"],
  bench: ["api", "core", "domain", "dev-postgres", "worker"]
}

/** Files without an importer, besides `main.ts`: they are started, or used from outside their package's code. */
const entryPoints: ReadonlyArray<string> = [
  "packages/client/src/index.ts",
  "packages/client/src/promise.ts",
  "packages/dev-postgres/src/vitestSetup.ts",
  "packages/e2e/src/hostile/innocentProcess.ts",
  "packages/e2e/src/shiftedClock.ts"
]

/** What they have in `src` is the tools of tests. */
const testSupport: ReadonlyArray<string> = ["e2e", "testing"]

const root = path.dirname(import.meta.dirname)

interface Source {
  readonly file: string
  readonly text: string
  readonly imports: ReadonlyArray<string>
}

const main = (): void => {
  const sources = [...list("packages"), ...list("scripts")].map(read)
  const breaches = [
    ...sources.flatMap(checkImports),
    ...sources.flatMap(checkEnvironment),
    ...checkImporters(sources),
    ...checkMigrations()
  ]
  for (const breach of breaches) process.stderr.write(`${breach}\n`)
  process.exitCode = breaches.length === 0 ? 0 : 1
}

const list = (folder: string): ReadonlyArray<string> =>
  fs.globSync(`${folder}/**/*.{ts,tsx,mjs}`, { cwd: root, exclude: (name) => name === "node_modules" || name === "dist" }).toSorted()

const read = (file: string): Source => {
  const text = fs.readFileSync(path.join(root, file), "utf8")
  return { file, text, imports: importsIn(text) }
}

const importsIn = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/(?:^|\n)\s*(?:import|export)\s(?:[^"'`;]*?\sfrom\s)?\s*["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']|new URL\(\s*["'](\.[^"']+\.ts)["']/g)]
    .flatMap(([, from, dynamic, url]) => from ?? dynamic ?? url ?? [])

const packageOf = (file: string): string | undefined => /^packages\/([^/]+)\//.exec(file)?.[1]

const isSource = (file: string): boolean => /^packages\/[^/]+\/src\//.test(file)

const isTestSupport = (file: string): boolean => testSupport.includes(packageOf(file) ?? "")

const isMain = (file: string): boolean => /^main[.]tsx?$/.test(path.basename(file))

const isTest = (file: string): boolean => file.includes("/test/")

/** The file an import means, where it is one of ours. */
const resolve = (source: Source, specifier: string): string | undefined => {
  const ours = /^@card-rewards\/([^/]+)\/(.+)$/.exec(specifier)
  if (ours !== null) return `packages/${ours[1]}/src/${ours[2]}.ts`
  return specifier.startsWith(".") ? path.join(path.dirname(source.file), specifier) : undefined
}

const checkImports = (source: Source): ReadonlyArray<string> =>
  source.imports.flatMap((specifier) => {
    const from = packageOf(source.file)
    if (from === undefined) return []
    if (specifier.startsWith(".") && packageOf(`${path.join(path.dirname(source.file), specifier)}/`) !== from) {
      return [`${source.file}: the relative import "${specifier}" leaves the package`]
    }
    const target = /^@card-rewards\/([^/]+)/.exec(specifier)?.[1]
    if (target === undefined) return []
    if (target === from || allowedImports[from]?.includes(target) === true) return []
    if (isTest(source.file) && (target === "dev-postgres" || target === "testing")) return []
    return [`${source.file}: ${from} may not import ${target}`]
  })

const checkEnvironment = ({ file, text }: Source): ReadonlyArray<string> =>
  isSource(file) && !isMain(file) && !isTestSupport(file) && /\bprocess\.env\b/.test(text)
    ? [`${file}: only a main.ts reads process.env`]
    : []

/** Test support may be imported by tests only. */
const checkImporters = (sources: ReadonlyArray<Source>): ReadonlyArray<string> => {
  const importedBy = (importers: ReadonlyArray<Source>) =>
    new Set(importers.flatMap((source) => source.imports.map((specifier) => resolve(source, specifier))))
  const byAny = importedBy(sources)
  const byCode = importedBy(sources.filter(({ file }) => !isTest(file)))
  return sources.map(({ file }) => file)
    .filter((file) => isSource(file) && !isMain(file) && !entryPoints.includes(file))
    .filter((file) => !(isTestSupport(file) ? byAny : byCode).has(file))
    .map((file) => `${file}: no file imports it`)
}

/** A migration that no list names would never run. */
const checkMigrations = (): ReadonlyArray<string> => {
  const folder = "packages/core/src/migrations"
  const listFile = "packages/core/src/Database/Migrations.ts"
  if (!fs.existsSync(path.join(root, folder))) return []
  const listed = [...fs.readFileSync(path.join(root, listFile), "utf8").matchAll(/["'](\d{4}_\w+)["']\s*:/g)].map(
    ([, name]) => name
  )
  const present = fs.readdirSync(path.join(root, folder)).filter((file) => /^\d{4}_\w+\.ts$/.test(file)).map((file) =>
    path.basename(file, ".ts")
  ).toSorted()
  return listed.join() === present.join() ? [] : [`${listFile} lists the migrations ${listed.join(", ")}; ${folder} holds ${present.join(", ")}`]
}

main()
