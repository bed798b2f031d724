import { CellShares, type Usage } from "@card-rewards/worker/WebhookDispatcher/CellShares"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { assert, it } from "@effect/vitest"

const cells = ["a", "b", "c"].map((name) => ({ name }))
const whole: Usage = { inFlight: 512, recent: 128, slow: 256, unrecorded: 768 }
const kinds = ["inFlight", "recent", "slow", "unrecorded"] as const
const none: Usage = { inFlight: 0, recent: 0, slow: 0, unrecorded: 0 }

it("cells together never use more than the limits, and each can always use its part", () => {
  const seed = Date.now() % 1_000_000
  const random = SeededRandom.make(seed)
  const limits = new CellShares()
  const used = new Map(cells.map((cell) => [cell, none]))
  for (const cell of cells) limits.note(cell, none, 0)
  for (let step = 0; step < 10_000; step++) {
    const cell = random.pick(cells)
    const [own, free] = [used.get(cell) ?? none, limits.free(cell)]
    const isTaking = random.chance(0.6)
    const part = random.chance(0.3) ? 1 : random.next()
    const next = (which: keyof Usage) =>
      isTaking ? own[which] + Math.floor(part * Math.max(0, free[which])) : Math.floor(own[which] * part)
    const usage: Usage = {
      inFlight: next("inFlight"),
      recent: next("recent"),
      slow: next("slow"),
      unrecorded: next("unrecorded")
    }
    limits.note(cell, usage, 0)
    used.set(cell, usage)
    for (const which of kinds) {
      const all = [...used.values()].reduce((sum, one) => sum + one[which], 0)
      assert.isAtMost(all, whole[which], `${which}, seed ${seed}`)
      for (const [one, usage] of used) {
        const part = Math.floor(whole[which] / 6)
        assert.isAtLeast(usage[which] + limits.free(one)[which], part, `${one.name} ${which}, seed ${seed}`)
      }
    }
  }
})

it("a cell alone may use all, also after others have closed", () => {
  const [first, second] = [{}, {}]
  const limits = new CellShares()
  limits.note(first, none, 3)
  assert.deepStrictEqual(limits.free(first), whole)
  limits.note(second, whole, 4)
  assert.strictEqual(limits.free(first).inFlight, 0)
  assert.strictEqual(limits.endpoints, 7)
  limits.forget(second)
  assert.deepStrictEqual([limits.free(first), limits.endpoints], [whole, 3])
})
