import { assert, describe, it } from "@effect/vitest"
import { make } from "../src/Pipeline/TokenBuckets.ts"

describe("TokenBuckets", () => {
  it("allows the burst at once, then the rate", () => {
    const buckets = make({ perSecond: 2, burst: 3, maxBuckets: 10 })
    const taken = (now: number) => buckets.take("a", 1, now)
    assert.deepStrictEqual([0, 0, 0, 0].map((now) => taken(now).allowed), [true, true, true, false])
    assert.strictEqual(taken(0).nextAfterMillis, 500)
    assert.isFalse(taken(499).allowed)
    assert.isTrue(taken(500).allowed)
    assert.strictEqual(taken(60_000).left, 2)
  })

  it("neither lends nor takes tokens because a clock goes back", () => {
    const buckets = make({ perSecond: 1, burst: 2, maxBuckets: 10 })
    const taken = (now: number) => buckets.take("a", 1, now).allowed
    assert.deepStrictEqual([10_000, 5_000, 5_000, 6_000].map(taken), [true, true, false, true])
  })

  it("keeps no more buckets than it may", () => {
    const buckets = make({ perSecond: 1, burst: 1, maxBuckets: 10_000 })
    for (let index = 0; index < 20_000; index++) buckets.take(`${index}`, 1, 0)
    assert.strictEqual(buckets.size(), 10_000)
    assert.isFalse(buckets.take("19999", 1, 0).allowed)
  })
})
