import { LaneWatermarks } from "@card-rewards/core/Processing/LaneWatermarks"
import { assert, it } from "@effect/vitest"

it("a lane's watermark holds for one ownership of its slot", () => {
  const lane = { integratorId: "acme", lane: 3 }
  const [first, second] = [{ ...lane, epoch: 1 }, { ...lane, epoch: 2 }]
  const watermarks = new LaneWatermarks()
  watermarks.remember([lane])
  const closed = 5n
  watermarks.scanned(watermarks.list(), closed, () => ({ ...first, arrival: null }))
  assert.deepStrictEqual([first, second].map((owned) => watermarks.watermarkOf(owned)), [closed, 0n])
  // another cell had the slot, and has stored an event under a lower number
  watermarks.scanned(watermarks.list(), closed, () => ({ ...second, arrival: 4n }))
  assert.deepStrictEqual([first, second].map((owned) => watermarks.watermarkOf(owned)), [0n, 0n])
})
