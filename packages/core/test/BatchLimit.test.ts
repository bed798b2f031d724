import { BatchLimit } from "@card-rewards/core/Processing/BatchLimit"
import { assert, describe, it } from "@effect/vitest"

const second = 1_000_000_000n

describe("the limit of batches", () => {
  it("calls an integrator slow after two exceeded deadlines in a row, not with one kept in between", () => {
    const limit = new BatchLimit()
    assert.isFalse(limit.recordSlow("acme"))
    limit.recordServed(["acme"])
    assert.isFalse(limit.recordSlow("acme"))
    limit.recordServed(["other"])
    assert.isTrue(limit.recordSlow("acme"))
  })

  it("calls a vault locked that one transaction has locked for 2 s, and not one that several had in turn", () => {
    const limit = new BatchLimit()
    const locked = (holder: string, atSeconds: bigint) => limit.recordLocked("acme", holder, atSeconds * second)
    assert.deepStrictEqual([locked("first", 0n), locked("second", 3n), locked("second", 4n)], [false, false, false])
    assert.isTrue(locked("second", 5n))
    limit.recordServed(["acme"])
    assert.isFalse(locked("second", 9n))
  })
})
