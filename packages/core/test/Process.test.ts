import * as TestProcess from "@card-rewards/testing/TestProcess"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { fileURLToPath } from "node:url"

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
})
