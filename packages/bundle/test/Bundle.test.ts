import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { promisify } from "node:util"

const root = path.resolve(import.meta.dirname, "../../..")

/** A checkout with the sources of this one and its installed packages, but without bundles. */
const checkout = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "card-rewards-bundle-"))
    for (const name of ["packages", "pnpm-lock.yaml"]) {
      fs.cpSync(path.join(root, name), path.join(folder, name), {
        recursive: true,
        verbatimSymlinks: true,
        filter: (one) => !/packages\/\w+\/(dist|test)$/.test(one)
      })
    }
    fs.symlinkSync(path.join(root, "node_modules"), path.join(folder, "node_modules"))
    return folder
  }),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true }))
)

const node = (folder: string, ...args: ReadonlyArray<string>) =>
  Effect.promise(() => promisify(execFile)(process.execPath, args, { cwd: folder }).then(({ stdout }) => stdout))

const bundle = (folder: string) => node(folder, "packages/bundle/src/main.ts", "admin")

describe("a bundle", () => {
  it.live("is made once for the same sources, and does what they do", () =>
    Effect.gen(function*() {
      const folder = yield* checkout
      const dist = path.join(folder, "packages/admin/dist")
      const [killed, running] = [".1", ".2"]
      const old = [killed, ...Array.from({ length: 5 }, (_, at) => `${at}`.repeat(16))]
      for (const name of old) fs.mkdirSync(path.join(dist, name), { recursive: true })
      for (const [at, name] of old.entries()) fs.utimesSync(path.join(dist, name), 1_000 + at, 1_000 + at)
      fs.mkdirSync(path.join(dist, running))

      const [file, other] = yield* Effect.all([bundle(folder), bundle(folder)], { concurrency: 2 })
      assert.strictEqual(file, other)
      const madeAt = fs.statSync(file).mtimeMs
      assert.strictEqual(yield* bundle(folder), file)
      assert.strictEqual(fs.statSync(file).mtimeMs, madeAt)
      // the newest ones stay, for processes that still run, and what another one writes, but not what a killed one left
      const hash = path.basename(path.dirname(file))
      assert.sameMembers(fs.readdirSync(dist), [hash, running, ...old.slice(2)])

      const help = yield* node(folder, file, "--help")
      assert.include(help, "npm run -s admin -- integrator create acme")
      assert.strictEqual(help, yield* node(root, "packages/admin/src/main.ts", "--help"))

      const source = path.join(folder, "packages/admin/src/main.ts")
      fs.writeFileSync(source, "process.stdout.write(`${import.meta.url} → ` + 1) // not kept\n")
      const changed = yield* bundle(folder)
      assert.notStrictEqual(changed, file)
      assert.strictEqual(yield* node(root, changed), `file://${source} → 1`)
      const code = fs.readFileSync(changed, "utf8")
      assert.include(code, "\\u2192")
      assert.notMatch(code, /not kept|[^\0-\xff]/)
    }).pipe(Effect.scoped))
})
