import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { OwnerShares } from "../src/Pipeline/OwnerShares.ts"

describe("OwnerShares", () => {
  it("gives one integrator a quarter, and all together the whole", () => {
    const limit = new OwnerShares(8)
    const taken = ["a", "a", "a", "b", "b", "c", "c", "d", "d", "e"].map((integratorId) => limit.take(integratorId))
    assert.deepStrictEqual(taken, [true, true, false, true, true, true, true, true, true, false])
    limit.giveBack("c")
    assert.isFalse(limit.take("a"))
    assert.isTrue(limit.take("e"))
  })

  it("counts amounts, and takes nothing where the amount does not fit", () => {
    const limit = new OwnerShares(400)
    assert.isFalse(limit.take("a", 101))
    assert.isTrue(limit.take("a", 60))
    assert.isFalse(limit.take("a", 41))
    assert.isTrue(limit.take("a", 40))
    limit.giveBack("a", 100)
    assert.isTrue(limit.take("a", 100))
  })

  const Steps = Schema.Array(Schema.Struct({
    integratorId: Schema.Literals(["a", "b", "c", "d", "e", "f"]),
    amount: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 5 })),
    isTake: Schema.Boolean
  })).check(Schema.isMaxLength(60))

  it.prop("never lets more be in use than it says, and is empty once all is given back", [Steps], ([steps]) => {
    const limit = new OwnerShares(16)
    const used: Record<string, number> = {}
    for (const { amount, integratorId, isTake } of steps) {
      const own = used[integratorId] ?? 0
      if (isTake) {
        const total = Object.values(used).reduce((sum, one) => sum + one, 0)
        const fits = own + amount <= 4 && total + amount <= 16
        assert.strictEqual(limit.take(integratorId, amount), fits)
        if (fits) used[integratorId] = own + amount
      } else if (own >= amount) {
        limit.giveBack(integratorId, amount)
        used[integratorId] = own - amount
      }
    }
    for (const [integratorId, own] of Object.entries(used)) if (own > 0) limit.giveBack(integratorId, own)
    for (const integratorId of "abcd") assert.isTrue(limit.take(integratorId, 4))
  })
})
