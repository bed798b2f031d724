import { Refused } from "@card-rewards/client/CommandLine/Exit"
import { draft } from "@card-rewards/client/CommandLine/Files"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

it.effect("a draft does not replace a file that was changed since it began", () =>
  Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "card-rewards-draft-"))),
      (path) => Effect.sync(() => fs.rmSync(path, { recursive: true, force: true }))
    )
    const path = join(folder, "seals")
    for (const replaced of [undefined, path]) {
      const { publish, write } = yield* draft(path, replaced)
      yield* write("mine")
      // another process publishes its own
      fs.writeFileSync(join(folder, "theirs"), "theirs")
      fs.renameSync(join(folder, "theirs"), path)
      const error = yield* Effect.flip(publish)
      assert.instanceOf(error, Refused)
      assert.match(error.message, /^Cannot write .*seals: it was changed meanwhile$/)
      assert.strictEqual(fs.readFileSync(path, "utf8"), "theirs")
    }
  }))
