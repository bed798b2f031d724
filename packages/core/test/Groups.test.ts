import { inOrderOfEffect } from "@card-rewards/domain/Evaluation"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { monthOf } from "@card-rewards/domain/Time"
import { processorTime } from "@card-rewards/testing/ProcessorTime"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Group } from "../src/Processing/Groups.ts"
import type { Catalog, VersionMetadata } from "../src/Programs/Catalog.ts"

const versions = Array.from({ length: 5 }, (_, index): VersionMetadata => ({
  programId: "p",
  asset: "USDC",
  version: index + 1,
  // of equal times the higher number is newer
  effectiveFrom: [3, 1, 3, 2, 0][index] ?? 0,
  definitionBytes: 1
}))

const newGroup = () => {
  const key = { integratorId: IntegratorId.make("acme"), userId: "ann", month: monthOf(0), programId: "p" }
  const compiled = () => ({ categoryCaps: new Map(), monthCap: 10n ** 18n })
  return new Group(key, { compiled } as unknown as Catalog)
}

describe("the versions of a group's open authorizations", () => {
  it.prop("are the newest two of those with any, whatever opened and closed", [Schema.Int], ([seed]) => {
    const random = SeededRandom.make(seed)
    const group = newGroup()
    for (const version of versions) {
      if (random.chance(0.3)) group.addEstimate({ version, categoryId: "c0", authorizations: 2, raw: 2n })
    }
    for (let step = 0; step < 40; step++) {
      const version = random.pick(versions)
      const categoryId = `c${random.below(2)}`
      const open = [...group.estimates()].find((one) => one.version === version && one.categoryId === categoryId)
      if (random.chance(0.5)) group.estimate(version, categoryId, 1, 1n)
      else if (open !== undefined && open.authorizations > 0) group.estimate(version, categoryId, -1, -1n)
      const present = new Set([...group.estimates()].flatMap((one) => one.authorizations > 0 ? [one.version] : []))
      const [newest, next] = inOrderOfEffect([...present]).toReversed()
      assert.deepStrictEqual(group.newestOpen(), [newest, next])
    }
  })

  it.effect("are found in the time that few categories take, however many there are", () =>
    Effect.gen(function*() {
      const [version = assert.fail()] = versions
      const group = newGroup()
      const filled = yield* processorTime(Effect.sync(() => {
        for (let index = 0; index < 100_000; index++) {
          group.addEstimate({ version, categoryId: `c${index}`, authorizations: 1, raw: 1n })
        }
      }))
      // the first change reads all of them
      group.estimate(version, "c0", 1, 1n)
      const found = yield* processorTime(Effect.sync(() => {
        for (let event = 0; event < 2_000; event++) {
          group.estimate(version, "c0", event % 2 === 0 ? -1 : 1, 0n)
          if (group.newestOpen()[0] !== version) assert.fail()
        }
      }))
      // a visit of each category takes ten times as long and more
      assert.isBelow(found / filled, 2)
    }))
})
