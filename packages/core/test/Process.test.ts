import { nodeOptions } from "@card-rewards/core/Process"
import { root } from "@card-rewards/testing/Processes"
import * as TestProcess from "@card-rewards/testing/TestProcess"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { text } from "node:stream/consumers"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const keepsLogging = fileURLToPath(new URL("./keepsLogging.ts", import.meta.url))
const objectAges = fileURLToPath(new URL("./objectAges.ts", import.meta.url))

describe("Process", () => {
  it.live("makes objects in the young generation, also where all earlier ones are in use", () =>
    Effect.gen(function*() {
      // one thread, so that V8 has optimized the code in time
      const flags = ["--allow-natives-syntax", "--max-semi-space-size=1", "--single-threaded"]
      const process = yield* TestProcess.start([...flags, objectAges], { env: {} })
      assert.strictEqual(yield* process.exit, 0, process.output())
      const [plain = NaN, ofService = NaN] = process.output().split(" ").map(Number)
      assert.isBelow(plain, 500, "V8 makes such objects in the old generation unless it is told otherwise")
      assert.strictEqual(ofService, 1_000)
    }).pipe(Effect.scoped))

  it.live("goes on where nobody reads its log any more", () =>
    Effect.promise(async () => {
      const child = spawn(process.execPath, [keepsLogging], { stdio: ["ignore", "pipe", "pipe"], env: {} })
      const errors = text(child.stderr)
      await once(child.stdout, "data")
      child.stdout.destroy()
      const [code] = await once(child, "exit")
      assert.deepStrictEqual([code, await errors], [0, "went on\n"])
    }))

  it("has the same options of Node wherever the api and the worker are started", () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    const image = readFileSync(join(root, "deploy/Containerfile"), "utf8")
    for (const name of ["api", "worker"]) {
      const started = ["node", "scripts/bootstrap.mjs", ...nodeOptions, `packages/${name}/src/main.ts`]
      assert.strictEqual(scripts[name], started.join(" "))
      const command = ["node", ...nodeOptions, `packages/${name}/dist/image/main.mjs`]
      assert.include(image, `CMD ${JSON.stringify(command).replaceAll(",", ", ")}`)
    }
  })
})
