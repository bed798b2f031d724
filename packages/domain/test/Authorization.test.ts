import { close, increment, openCents, reverse } from "@card-rewards/domain/Authorization"
import { assert, describe, it } from "@effect/vitest"

const opened = { authorized: 1_000n, incremented: 0n, reversed: 0n, closed: false }

describe("the open amount of an authorization", () => {
  it("is authorization + increments − partial reversals, and never less than zero", () => {
    const grown = increment(opened, 500n)
    assert.strictEqual(openCents(grown), 1_500n)
    assert.strictEqual(openCents(reverse(grown, 999n)), 501n)
    assert.strictEqual(openCents(reverse(reverse(opened, 999n), 999n)), 0n)
  })

  it("is clamped once, from totals: what was reversed beyond it counts against a later increment", () => {
    const beyond = reverse(reverse(opened, 900n), 900n)
    assert.strictEqual(openCents(increment(beyond, 1_000n)), 200n)
  })

  it.each([0n, 1_000n, 1_001n])("is 0 for good after a reversal of %s, including increments", (cents) => {
    const voided = reverse(increment(opened, 500n), cents)
    assert.isTrue(voided.closed)
    assert.strictEqual(openCents(increment(voided, 700n)), 0n)
  })

  it("is gone for good after the first clearing", () => {
    const closed = close(opened)
    assert.strictEqual(openCents(increment(reverse(closed, 1n), 700n)), 0n)
  })
})
