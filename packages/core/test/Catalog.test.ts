import { CachedPrograms, Catalog, mergeMetadata } from "@card-rewards/core/Programs/Catalog"
import { indexInForce } from "@card-rewards/domain/Evaluation"
import { IntegratorId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const instant = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 12 }))
const published = Schema.Array(
  Schema.Struct({ program: Schema.Literals(["a", "b", "c", "d"]), effectiveFrom: instant })
).check(Schema.isMaxLength(20))

const assetOf = (program: string): Asset => program === "d" ? "EURe" : "USDC"

describe("the programs at an instant", () => {
  it.prop("are those whose versions are in force then, whichever instants were requested before", [
    published,
    Schema.Array(Schema.Tuple([Schema.Literals(["USDC", "EURe"]), instant]))
  ], ([rows, instants]) => {
    const entry = new CachedPrograms(IntegratorId.make("acme"))
    entry.metadata = mergeMetadata(
      new Map(),
      rows.map(({ effectiveFrom, program }, index) => ({
        programId: program,
        asset: assetOf(program),
        version: index + 1,
        effectiveFrom,
        definitionBytes: 1
      }))
    )
    const catalog = new Catalog(entry)
    for (const [asset, at] of instants) {
      const expected = [...entry.metadata.values()].filter((program) => program.asset === asset)
        .map(({ programId, versions }) => ({ programId, version: versions[indexInForce(versions, at)] }))
      const { programs, versions } = catalog.at(asset, at)
      assert.deepStrictEqual(programs, expected)
      assert.deepStrictEqual([...versions], expected.flatMap(({ version }) => version ?? []))
    }
  })
})
