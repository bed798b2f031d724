import { layer } from "@effect/vitest"
import { serverUrl } from "@card-rewards/dev-postgres/TestDatabase"
import { assert } from "vitest"
import { Effect, Layer, References } from "effect"
import { sizes } from "../src/Measure.ts"
import { measures } from "../src/Measures.ts"
import { plot } from "../src/Plots.ts"
import { Processes } from "../src/Processes.ts"
import { Server } from "../src/Server.ts"
import * as Table from "../src/Table.ts"

const run = Layer.unwrap(Effect.sync(() =>
  Layer.mergeAll(
    Server.layer(serverUrl()),
    Processes.layer({}),
    Layer.succeed(References.MinimumLogLevel, "Warn")
  )
))

layer(run, { excludeTestServices: true, timeout: "120 seconds" })("a small run", (it) => {
  for (const { name, run, title } of measures) {
    it.effect(`${name}: every contestant does its work and has figures`, () =>
      Effect.gen(function*() {
        const result = yield* Effect.scoped(run(sizes.small))
        assert.isAtLeast(result.findings.length, 2)
        for (const { contestant, samples } of result.findings) {
          assert.lengthOf(samples, sizes.small.rounds, contestant)
          for (const [metric, value] of samples.flatMap((sample) => Object.entries(sample))) {
            assert.isTrue(Number.isFinite(value), `${contestant}: ${metric}`)
          }
          assert.isAbove(Object.values(samples[0] ?? {})[0] ?? 0, 0, `${contestant}: its rate`)
        }
        for (const { ratios, what } of result.comparisons) assert.isTrue(ratios.every(Number.isFinite), what)
        assert.include(Table.print({ title, result }), title)
        assert.include(yield* plot(title, result), "<svg")
      }), 120_000)
  }
})
