/**
 * `npm run pack:client [-- <folder>]`: builds the package that integrators install, `@card-rewards/client`, and packs
 * it into the folder, by default the client's `dist`. It contains the client's files and those of the domain that they
 * use, as JavaScript with types, and the command line. Prints the tarball's path.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"

const root = path.dirname(import.meta.dirname)
const client = path.join(root, "packages/client")

const main = (): void => {
  const target = path.resolve(process.argv[2] ?? path.join(client, "dist"))
  const build = fs.mkdtempSync(path.join(os.tmpdir(), "card-rewards-client-"))
  try {
    const compiler = path.join(root, "node_modules/typescript/bin/tsc")
    // the library is compiled without the types of Node, on which it must not depend; the command line is not, and then
    // the comments remain in the declarations alone
    for (const project of ["tsconfig.build.json", "tsconfig.bin.json"]) {
      // one thread, because each of several would check the same types of Effect again
      run(process.execPath, compiler, "--singleThreaded", "--project", path.join(client, project), "--outDir", build)
    }
    for (const file of fs.globSync("**/*.{js,d.ts}", { cwd: build })) makeRelative(build, file)
    fs.writeFileSync(path.join(build, "package.json"), `${JSON.stringify(manifest(), null, 2)}\n`)
    fs.copyFileSync(path.join(client, "README.md"), path.join(build, "README.md"))
    fs.mkdirSync(target, { recursive: true })
    const tarball = run("npm", "pack", build, "--pack-destination", target, "--silent").trim()
    process.stdout.write(`${path.join(target, tarball)}\n`)
  } finally {
    fs.rmSync(build, { recursive: true, force: true })
  }
}

/** Makes imports of the domain relative to its files in the package, and replaces `.ts` in imports by `.js`. */
const makeRelative = (build: string, file: string): void => {
  const toRoot = path.relative(path.dirname(file), ".")
  const text = fs.readFileSync(path.join(build, file), "utf8")
  fs.writeFileSync(
    path.join(build, file),
    text.replaceAll(/((?:from|import\() ?)"([^"]+)"/g, (_, before: string, specifier: string) => {
      const local = specifier.replace(/^@card-rewards\/domain\/(.*)$/, `${toRoot}/domain/src/$1.js`)
      return `${before}"${local.startsWith(".") ? local.replace(/\.ts$/, ".js") : local}"`
    })
  )
}

/** The manifest without what is of the workspace alone. Effect's `http` modules may change with a minor version. */
const manifest = () => {
  const own = readJson<Record<string, unknown>>(path.join(client, "package.json"))
  const { description, engines, license, name, version } = own
  const effect = readJson<{ version: string }>(path.join(root, "node_modules/effect/package.json"))
  const module = (file: string) => ({ types: `./client/src/${file}.d.ts`, default: `./client/src/${file}.js` })
  return {
    name,
    version,
    description,
    license,
    type: "module",
    sideEffects: false,
    engines,
    bin: { "card-rewards": "client/src/main.js" },
    exports: { ".": module("index"), "./promise": module("promise"), "./package.json": "./package.json" },
    peerDependencies: { effect: `~${effect.version}` }
  }
}

const readJson = <A>(file: string): A => JSON.parse(fs.readFileSync(file, "utf8"))

const run = (command: string, ...args: ReadonlyArray<string>): string =>
  execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] })

main()
