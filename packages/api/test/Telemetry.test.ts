import * as Metrics from "@card-rewards/core/Metrics"
import { assert, it } from "@effect/vitest"
import { Context, Effect, References, Tracer } from "effect"
import { HttpEffect, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import * as Telemetry from "../src/Http/Telemetry.ts"

const startMillis = Date.UTC(2026, 10, 1)

it.effect("a process traces 50 requests in each second, also after its clock was set back, and none of /health", () =>
  Effect.gen(function*() {
    const spans: Array<string> = []
    const tracer = Tracer.make({
      span: (options) => {
        spans.push(options.name)
        return new Tracer.NativeSpan(options)
      }
    })
    const answer = yield* Telemetry.around(Effect.succeed(HttpServerResponse.empty()))
    const context = Context.add(yield* Effect.context<never>(), Tracer.Tracer, tracer)
    const handle = HttpEffect.toWebHandlerWith<never, HttpServerRequest.HttpServerRequest>(
      Context.add(context, References.TracerEnabled, false)
    )(answer)
    /** How many of 60 requests are traced. */
    const traced = (path: string) =>
      Effect.promise(async () => {
        const before = spans.length
        for (let sent = 0; sent < 60; sent++) await handle(new Request(`http://api${path}`))
        return spans.length - before
      })
    yield* TestClock.setTime(startMillis)
    assert.strictEqual(yield* traced("/health"), 0)
    assert.strictEqual(yield* traced("/v1/programs"), 50)
    assert.strictEqual(yield* traced("/v1/programs"), 0)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(yield* traced("/v1/programs"), 50)
    yield* TestClock.setTime(startMillis - 3_600_000)
    assert.strictEqual(yield* traced("/v1/programs"), 50)
  }).pipe(Effect.provideService(Metrics.Enabled, true)))
