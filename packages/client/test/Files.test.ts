import { Refused } from "@card-rewards/client/CommandLine/Exit"
import { draft } from "@card-rewards/client/CommandLine/Files"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A folder of the test. */
const folder = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "card-rewards-draft-"))),
  (path) => Effect.sync(() => fs.rmSync(path, { recursive: true, force: true }))
)

it.effect("a draft does not replace a file that was changed since it began", () =>
  Effect.gen(function*() {
    const path = join(yield* folder, "seals")
    for (const replaced of [undefined, path]) {
      const { publish, write } = yield* draft(path, replaced)
      yield* write("mine")
      // another process publishes its own
      fs.writeFileSync(`${path}.theirs`, "theirs")
      fs.renameSync(`${path}.theirs`, path)
      const error = yield* Effect.flip(publish)
      assert.instanceOf(error, Refused)
      assert.match(error.message, /^Cannot write .*seals: it was changed meanwhile$/)
      assert.strictEqual(fs.readFileSync(path, "utf8"), "theirs")
    }
  }))

it.effect("a draft has all lines also where the disk takes them in parts, and replaces what a link leads to", () =>
  Effect.gen(function*() {
    const path = join(yield* folder, "seals")
    fs.writeFileSync(path, "old")
    fs.symlinkSync(path, `${path}.link`)
    const { publish, write } = yield* draft(`${path}.link`, path)
    const { writeSync } = fs
    yield* Effect.acquireUseRelease(
      Effect.sync(() => {
        fs.writeSync = (file: number, data: unknown) => writeSync(file, `${data}`.slice(0, 3))
        syncBuiltinESMExports()
      }),
      () => write("a line of many characters"),
      () =>
        Effect.sync(() => {
          fs.writeSync = writeSync
          syncBuiltinESMExports()
        })
    )
    yield* publish
    assert.strictEqual(fs.readFileSync(path, "utf8"), "a line of many characters\n")
    assert.isTrue(fs.lstatSync(`${path}.link`).isSymbolicLink())
  }))

it.effect("a file that only its owner may read stays so; a link that leads to no file is refused", () =>
  Effect.gen(function*() {
    const path = join(yield* folder, "seals")
    fs.symlinkSync(path, `${path}.link`)
    const error = yield* Effect.flip(draft(`${path}.link`))
    assert.match(error.message, /^Cannot write .*seals.link: ENOENT$/)
    assert.isTrue(fs.lstatSync(`${path}.link`).isSymbolicLink())
    for (const mode of [0o600, 0o664]) {
      fs.writeFileSync(path, "old")
      fs.chmodSync(path, mode)
      const { publish } = yield* draft(path, path)
      yield* publish
      assert.strictEqual(fs.statSync(path).mode & 0o777, mode)
    }
  }))
