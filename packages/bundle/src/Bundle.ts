/**
 * The programs of the service, each as one file with all it needs of our packages and of others. A process that runs it
 * starts in a quarter of the time and takes half of the memory of one that loads the sources: 600 modules, and their
 * comments, which V8 keeps (decision 20).
 */
import { createHash, randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Plugin } from "rolldown"

export const programs = ["admin", "api", "worker"] as const
export type Program = typeof programs[number]

const packages = path.resolve(import.meta.dirname, "../..")

/** The packages that the bundles are made of, and this one. */
const inputs = ["admin", "api", "bundle", "core", "dev-postgres", "domain", "worker"]

/** Of a program, the newest ones: a process may still load a part of an older one. */
const keptBundles = 5

/** What is not finished after so long was left by a process that was killed; to write a bundle takes a second. */
const writeMillis = 600_000

const bundles = new Map<Program, Promise<string>>()

/**
 * The absolute path of a program's bundle, which is made where there is none of the present sources: those at the first
 * call, because a process that starts many others would hash all sources for each of them.
 */
export const bundleOf = (program: Program): Promise<string> => {
  const bundle = bundles.get(program) ?? find(program)
  bundles.set(program, bundle)
  return bundle
}

const find = async (program: Program): Promise<string> => {
  const dist = path.join(packages, program, "dist")
  const folder = path.join(dist, fingerprint())
  const file = path.join(folder, "main.mjs")
  if (!fs.existsSync(file)) {
    const scratch = path.join(dist, `.${randomUUID()}`)
    await write(program, scratch)
    moveTo(folder, scratch)
    removeOld(dist)
  }
  return file
}

/** Makes a program's bundle in a folder of this name in `packages/<program>/dist`. */
export const bundleAs = (program: Program, name: string): Promise<void> =>
  write(program, path.join(packages, program, "dist", name))

/** A hash of all sources and of the versions of all packages. */
const fingerprint = (): string => {
  const hash = createHash("sha256")
  const add = (file: string) => hash.update(`\n${file}\n`).update(fs.readFileSync(path.join(packages, file)))
  add("../pnpm-lock.yaml")
  for (const name of inputs) {
    add(`${name}/package.json`)
    const sources = fs.readdirSync(path.join(packages, name, "src"), { recursive: true, encoding: "utf8" })
    for (const source of sources.filter((one) => one.endsWith(".ts")).sort()) add(`${name}/src/${source}`)
  }
  return hash.digest("hex").slice(0, 16)
}

const write = async (program: Program, folder: string): Promise<void> => {
  const { rolldown } = await import("rolldown")
  const bundle = await rolldown({
    input: { main: path.join(packages, program, "src/main.ts") },
    platform: "node",
    // optional, and not installed
    external: ["pg-native"],
    plugins: [keepUrls(folder), escapeCharacters]
  })
  try {
    const { output } = await bundle.write({
      dir: folder,
      format: "esm",
      entryFileNames: "[name].mjs",
      chunkFileNames: "[name]-[hash].mjs",
      comments: false
    })
    verifyInputs(output.flatMap((file) => file.type === "chunk" ? file.moduleIds : []))
  } finally {
    await bundle.close()
  }
}

/** Otherwise a change of another package would leave its old code in the bundles. */
const verifyInputs = (modules: ReadonlyArray<string>): void => {
  for (const module of modules) {
    const [name = "", folder] = path.relative(packages, module).split(path.sep)
    if (folder === "src" && !inputs.includes(name)) throw new Error(`The fingerprint of bundles lacks packages/${name}`)
  }
}

/** Keeps the URL of each of our modules that of its source, by which it finds other files of the repository. */
const keepUrls = (folder: string): Plugin => ({
  name: "keep-urls",
  transform: {
    filter: { id: /\.ts$/, code: "import.meta.url" },
    handler: (code, id) =>
      code.replaceAll("import.meta.url", `new URL("${path.relative(folder, id)}", import.meta.url).href`)
  }
})

/** V8 keeps a text with any character beyond Latin-1 in twice the memory. */
const escapeCharacters: Plugin = {
  name: "escape-characters",
  generateBundle: (_, files) => {
    for (const file of Object.values(files)) {
      if (file.type === "chunk") file.code = escaped(file.code)
    }
  }
}

const escaped = (code: string): string =>
  code.replaceAll(/[^\0-\xff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Of several processes that make a bundle at once, the first one's is kept. */
const moveTo = (folder: string, scratch: string): void => {
  try {
    fs.renameSync(scratch, folder)
  } catch (error) {
    if (!fs.existsSync(folder)) throw error
    fs.rmSync(scratch, { recursive: true, force: true })
  }
}

/** Other processes may do the same at once, or still write theirs. */
const removeOld = (dist: string): void => {
  const modifiedAt = (folder: string) => fs.statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? 0
  const folders = fs.readdirSync(dist).map((name) => path.join(dist, name))
  const isUnfinished = (folder: string) => path.basename(folder).startsWith(".")
  const finished = folders.filter((folder) => !isUnfinished(folder))
    .toSorted((one, other) => modifiedAt(other) - modifiedAt(one))
  // a bundle was moved to this folder just now
  const killed = folders.filter((folder) => isUnfinished(folder) && modifiedAt(dist) - modifiedAt(folder) > writeMillis)
  for (const folder of [...finished.slice(keptBundles), ...killed]) fs.rmSync(folder, { recursive: true, force: true })
}
