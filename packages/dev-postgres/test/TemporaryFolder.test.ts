import { temporaryFolder } from "@card-rewards/dev-postgres/TemporaryFolder"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Owners from "./support/Owners.ts"

/** Removes the files of a folder, one after the other. */
const remover = `
  import * as fs from "node:fs"
  const folder = process.argv[1]
  for (const name of fs.readdirSync(folder)) fs.rmSync(folder + "/" + name, { force: true })`

const filesOfEach = 3_000

it.live("a temporary folder is gone with its scope, also where another process removes files of it", () =>
  Effect.gen(function*() {
    const folder = yield* Effect.scoped(Effect.gen(function*() {
      const folder = yield* temporaryFolder("card-rewards-temporary-")
      const parts = ["a", "b"].map((name) => path.join(folder, name))
      for (const part of parts) {
        fs.mkdirSync(part)
        for (let file = 0; file < filesOfEach; file++) fs.writeFileSync(path.join(part, `${file}`), "")
      }
      for (const part of parts) spawn(process.execPath, ["--input-type=module", "--eval", remover, part])
      yield* Owners.until(() => parts.some((part) => fs.readdirSync(part).length < filesOfEach))
      return folder
    }))
    assert.isFalse(fs.existsSync(folder))
  }))
