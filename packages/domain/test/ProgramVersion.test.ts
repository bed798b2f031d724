import { compiledBytes } from "@card-rewards/domain/ProgramVersion"
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { bodyOf, compiled, definitions } from "./compiled/Definitions.ts"

const measure = join(import.meta.dirname, "compiled/main.ts")

describe("a compiled version", () => {
  let bytes: Readonly<Record<string, number>> = {}

  beforeAll(() => {
    bytes = JSON.parse(execFileSync(process.execPath, ["--expose-gc", measure], { encoding: "utf8" }))
  })

  it.each(definitions)("takes no more memory than its estimate: %s", (name, changes, maxBytes) => {
    const body = bodyOf(changes)
    assert.isAtMost(Buffer.byteLength(body), 256 * 1_024)
    const estimate = compiledBytes(compiled(body))
    const retained = bytes[name] ?? assert.fail("was not measured")
    assert.isAbove(retained, 0)
    assert.isAtMost(retained, estimate)
    assert.isAtMost(estimate, maxBytes)
  })

  it("cannot have a rate that its tables do not hold", () => {
    assert.throws(() => compiled(bodyOf({ baseRate: 65_536 })), RangeError)
  })
})
