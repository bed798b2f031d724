import { parseSeeds } from "@card-rewards/testing/SeededRandom"
import { assert, it } from "@effect/vitest"

it("TEST_SEEDS is a number of seeds, or single seeds", () => {
  assert.deepStrictEqual(parseSeeds("3"), [1, 2, 3])
  assert.deepStrictEqual(parseSeeds("7,8"), [7, 8])
  assert.deepStrictEqual(parseSeeds("7,"), [7])
})

it("TEST_SEEDS that is not made of positive integers is refused, so that no run is without a story", () => {
  for (const text of ["", ",", "0", "0,7", "-1", "1.5", "many", "7,x", "1e3", " 7"]) {
    assert.throws(() => parseSeeds(text), /Not a number of seeds/)
  }
})
