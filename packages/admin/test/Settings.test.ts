import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { chownSync, readdirSync } from "node:fs"
import { admin, DatabaseUrl, folder } from "./Cli.ts"

/** Runs the command line where no database is reached. */
const run = (args: ReadonlyArray<string>, env: Record<string, string>) =>
  Effect.provideService(admin(args, env), DatabaseUrl, { url: Redacted.make("postgres://127.0.0.1:1/none") })

it.live("refuses a DATA_DIR of another user, and leaves it as it is", () =>
  Effect.gen(function*() {
    const path = yield* folder({})
    // only root can give a folder away; the root folder belongs to root
    const isRoot = process.getuid?.() === 0
    if (isRoot) chownSync(path, 65_534, 65_534)
    const embedded = { DATABASE_URL: "", SECRETS_KEY: "", DATA_DIR: isRoot ? path : "/" }
    for (const command of [["integrator", "list"], ["secrets", "rotate"]]) {
      const { status, stderr, stdout } = yield* run(command, embedded)
      assert.deepStrictEqual([status, stdout], [1, ""])
      assert.match(stderr, /^DATA_DIR: cannot use \/.*: it belongs to another user \(uid \d+\): choose .*\n$/)
    }
    assert.deepStrictEqual(readdirSync(path), [])
  }).pipe(Effect.scoped))

it.live("refuses an address with which no connection can be made, without repeating it", () =>
  Effect.gen(function*() {
    const DATABASE_URL = "postgres://u:hidden%zz@127.0.0.1:1/x"
    const stderr = "DATABASE_URL must have a valid percent-encoding (%25 for %)\n"
    assert.deepStrictEqual(yield* run(["cells", "list"], { DATABASE_URL }), { status: 1, stdout: "", stderr })
  }))
