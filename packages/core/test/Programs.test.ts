import { ProgramId } from "@card-rewards/domain/Ids"
import type { ProgramDefinition } from "@card-rewards/domain/Program"
import { printTimestamp } from "@card-rewards/domain/Time"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Programs } from "../src/Programs.ts"
import { definition as definitionAt, newIntegrator, pairRuns, startMillis, testLayer } from "./TestLayer.ts"

const layer = Programs.layer.pipe(Layer.provideMerge(testLayer))
const id = (text: string) => ProgramId.make(text)
const definition = (changes: object = {}) => definitionAt(startMillis + 300_000, changes)

it.layer(layer)("Programs", (it) => {
  it.effect("the same content again is a duplicate, other content or an unknown key a conflict", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      const publish = (content: ProgramDefinition, unknown: ReadonlyArray<string> = []) =>
        programs.publish(integratorId, id("p"), 1, content, unknown)
      const first = yield* publish(definition())
      assert.isFalse(first.duplicate)
      const again = definition({ caps: { categories: [], perMonth: "01000000000" } })
      assert.deepStrictEqual(yield* publish(again), { ...first, duplicate: true })
      const others = [publish(definition({ baseRate: 1 })), publish(definition(), ["x: is not known"]),
        publish(definition({ merchantRates: ["\0"] }))]
      for (const other of others) assert.strictEqual((yield* Effect.flip(other))._tag, "ProgramVersionConflict")
      assert.deepStrictEqual(
        (yield* programs.get(integratorId, id("p"))).versions.map((one) => one.definition),
        [definition()]
      )
    }))

  it.effect("a refused version lists unknown keys and broken rules at once and takes no number", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      const broken = definition({ baseRate: -1, effectiveFrom: printTimestamp(startMillis + 299_999) })
      const error = yield* Effect.flip(programs.publish(integratorId, id("p"), 1, broken, ["x: is not known"]))
      assert.lengthOf(error._tag === "ProgramRefused" ? error.problems : [], 3)
      assert.deepStrictEqual(yield* programs.list(integratorId), [])
      assert.strictEqual((yield* Effect.flip(programs.get(integratorId, id("p"))))._tag, "NotFound")
    }))

  it.effect("lists and compiled versions are in order of code points and version, and show each publication", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      const none = yield* programs.versions([integratorId])
      assert.deepStrictEqual(none.get(integratorId), [])
      for (const [program, version] of [["😀", 1], ["\uffee", 7], ["a", 3], ["\uffee", 2]] as const) {
        yield* programs.publish(integratorId, id(program), version, definition(), [])
        yield* programs.versions([integratorId])
      }
      const listed = (yield* programs.list(integratorId)).flatMap((one) =>
        one.versions.map((v) => [one.programId, v.version]))
      assert.deepStrictEqual(listed, [["a", 3], ["\uffee", 2], ["\uffee", 7], ["😀", 1]])
      const compiled = (yield* programs.versions([integratorId])).get(integratorId) ?? []
      assert.deepStrictEqual(compiled.map((one) => [one.programId, one.version]), listed)
    }))

  it.effect("of two concurrent publications one counts: identical ones are duplicates, others a conflict", () =>
    Effect.gen(function*() {
      const programs = yield* Programs
      const integratorId = yield* newIntegrator
      const pair = (version: number, rates: ReadonlyArray<number>) =>
        Effect.all(rates.map((baseRate) =>
          Effect.result(programs.publish(integratorId, id("p"), version, definition({ baseRate }), []))
        ), { concurrency: 2 })
      for (let run = 1; run <= pairRuns; run++) {
        const same = yield* pair(run, [1, 1])
        assert.deepStrictEqual(same.map((one) => one._tag === "Success" && one.success.duplicate).sort(), [false, true])
        const different = yield* pair(100 + run, [1, 2])
        assert.deepStrictEqual(different.map((one) => one._tag).sort(), ["Failure", "Success"])
      }
    }))
})
