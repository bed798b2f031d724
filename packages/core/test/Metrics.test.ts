import { assert, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { SqlClient } from "effect/sql"
import * as Metrics from "../src/Metrics.ts"
import { testLayer } from "./TestLayer.ts"

const counted = Metrics.counter("test.counted", "{event}", "Counted")
const events = [{ kind: "a" }, { kind: "b" }, { kind: "a" }]
const count = Metrics.afterCommit(() => Metrics.addByKind(counted, events))
const numberOf = (kind: string) =>
  Effect.map(Metric.value(Metric.withAttributes(counted, { kind })), ({ count }) => count)

it.layer(testLayer)("metrics", (it) => {
  it.effect("count by kind what a committed transaction did, a retried one once, and nothing of one rolled back", () =>
    Effect.gen(function*() {
      const { withTransaction } = yield* SqlClient.SqlClient
      yield* Effect.exit(withTransaction(Effect.andThen(count, Effect.fail("rolled back"))))
      assert.strictEqual(yield* numberOf("a"), 0)
      let tries = 0
      const conflicting = Effect.suspend(() => ++tries < 3 ? Effect.fail("conflict") : Effect.succeed(tries))
      const tried = yield* withTransaction(Effect.andThen(count, conflicting)).pipe(Effect.retry({ times: 5 }))
      assert.strictEqual(tried, 3)
      assert.deepStrictEqual([yield* numberOf("a"), yield* numberOf("b")], [2, 1])
    }).pipe(Effect.provideService(Metrics.Enabled, true), Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("count nothing where telemetry is not exported", () =>
    Effect.gen(function*() {
      const { withTransaction } = yield* SqlClient.SqlClient
      yield* withTransaction(count)
      assert.strictEqual(yield* numberOf("a"), 0)
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))
})
