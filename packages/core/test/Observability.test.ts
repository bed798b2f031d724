import * as Observability from "@card-rewards/core/Observability"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Exit, Layer, Scope } from "effect"
import { FetchHttpClient } from "effect/http"
import { TestClock } from "effect/testing"

/** A collector that accepts each request and responds to none until it is told to. */
class SilentCollector {
  responds = false
  open = 0
  mostOpen = 0
  /** Requests of each kind, by the end of their path. */
  readonly received = new Map<string, number>()

  readonly fetch: typeof globalThis.fetch = (url, init) => {
    const kind = `${url}`.replace(/^.*\//u, "")
    this.received.set(kind, (this.received.get(kind) ?? 0) + 1)
    if (this.responds) return Promise.resolve(new Response("{}"))
    this.mostOpen = Math.max(this.mostOpen, ++this.open)
    return new Promise((_, reject) =>
      init?.signal?.addEventListener("abort", () => {
        this.open--
        reject(new Error("aborted"))
      })
    )
  }
}

const environment = ConfigProvider.layer(ConfigProvider.fromUnknown({
  OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
  OTEL_METRIC_EXPORT_INTERVAL: "1000"
}))

/** Runs a test with telemetry that is exported to the collector. */
const exportingTo = (collector: SilentCollector) =>
  Effect.fnUntraced(function*<A, E, R>(test: Effect.Effect<A, E, R>) {
    // the last export of a test that fails would wait for its clock
    const close = (scope: Scope.Closeable) => Effect.forkDetach(Scope.close(scope, Exit.void))
    const scope = yield* Effect.acquireRelease(Scope.make(), close)
    const telemetry = Observability.layer("test").pipe(
      Layer.provide([environment, Layer.succeed(FetchHttpClient.Fetch, collector.fetch)])
    )
    return yield* Effect.provide(test, yield* Layer.buildWithScope(telemetry, scope))
  })

const nextPhase = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
const pass = (seconds: number) =>
  Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), nextPhase), { times: seconds - 1 })
const spans = (count: number) =>
  Effect.replicateEffect(Effect.withSpan(Effect.void, "test"), count, { discard: true })

describe("a collector that never responds", () => {
  it.effect("holds no request for longer than 10 s, after which it is repeated", () => {
    const collector = new SilentCollector()
    return Effect.gen(function*() {
      yield* pass(2)
      assert.deepStrictEqual([collector.received.get("metrics"), collector.open], [1, 1])
      collector.responds = true
      yield* pass(10)
      assert.strictEqual(collector.open, 0)
      assert.isAtLeast(collector.received.get("metrics") ?? 0, 2)
    }).pipe(exportingTo(collector))
  })

  it.effect("holds no more than 16 requests, however much there is to export", () => {
    const collector = new SilentCollector()
    return Effect.gen(function*() {
      for (let second = 0; second < 40; second++) {
        yield* spans(2_000)
        yield* pass(1)
      }
      assert.strictEqual(collector.mostOpen, 16)
      collector.responds = true
      yield* pass(70)
      collector.received.clear()
      yield* spans(1_000)
      yield* pass(2)
      assert.isAtLeast(collector.received.get("traces") ?? 0, 1)
      assert.isAtLeast(collector.received.get("metrics") ?? 0, 1)
    }).pipe(exportingTo(collector))
  })
})

describe("the headers for the collector", () => {
  const headersOf = (text: string) =>
    Effect.map(Observability.settings, ({ headers }) => headers).pipe(
      Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ OTEL_EXPORTER_OTLP_HEADERS: text })))
    )

  it.effect("are pairs of a name and a percent-encoded value", () =>
    Effect.gen(function*() {
      const headers = yield* headersOf("Authorization=Basic%20YTpi==, x-tenant = acme")
      assert.deepStrictEqual(headers, { Authorization: "Basic YTpi==", "x-tenant": "acme" })
      assert.deepStrictEqual(yield* headersOf(""), {})
    }))

  for (const text of ["hidden", "=hidden", "a hidden=v", "a:hidden=v", "a=hidden,", "a=hidden%zz", "a=hidden%0a"]) {
    it.effect(`are refused as ${text}, without repeating them`, () =>
      Effect.gen(function*() {
        const { message } = yield* Effect.flip(headersOf(text))
        assert.strictEqual(message, "OTEL_EXPORTER_OTLP_HEADERS must be a list such as name=value,other=value")
      }))
  }
})
