import * as Metrics from "@card-rewards/core/Metrics"
import { observe } from "@card-rewards/worker/WebhookDispatcher/AttemptTelemetry"
import { assert, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { readConsumer } from "./ReadConsumer.ts"

it.effect("a receiver cannot choose the series of metrics: statuses that HTTP does not know share their class", () =>
  Effect.gen(function*() {
    const observed = yield* observe
    const [sending] = readConsumer("acme", 1).begin(1, false, 0)
    if (sending === undefined) return assert.fail("nothing to send")
    const unknown = [299, 420, 499, ...Array.from({ length: 300 }, (_, index) => 600 + index)]
    for (const status of [200, 404, 500, ...unknown]) observed(sending)({ status, answer: "" }, 1)
    const types = (yield* Metric.snapshot).flatMap(({ attributes, id }) =>
      id === "card_rewards.deliveries.attempt.duration" ? [attributes?.["error.type"]] : []
    )
    assert.sameMembers(types, [undefined, "404", "500", "4xx", "6xx", "7xx", "8xx"])
  }).pipe(Effect.provideService(Metrics.Enabled, true), Effect.provideService(Metric.MetricRegistry, new Map())))
