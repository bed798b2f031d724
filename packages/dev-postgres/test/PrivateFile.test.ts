import { createPrivate, writePrivate } from "@card-rewards/dev-postgres/PrivateFile"
import { assert, it } from "vitest"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

it("of two processes that create a private file at once, the first one's stays", () => {
  const folder = fs.mkdtempSync(join(tmpdir(), "private-file-"))
  const file = join(folder, "key")
  createPrivate(file, "first")
  createPrivate(file, "second")
  assert.strictEqual(fs.readFileSync(file, "utf8"), "first")
  writePrivate(file, "third")
  assert.strictEqual(fs.readFileSync(file, "utf8"), "third")
  assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
  assert.deepStrictEqual(fs.readdirSync(folder), ["key"])
  fs.rmSync(folder, { recursive: true })
})
