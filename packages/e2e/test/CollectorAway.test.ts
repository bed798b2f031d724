import { listening } from "@card-rewards/e2e/Collector"
import { service } from "@card-rewards/e2e/Setting"
import { expect, seedIntegrator, integratorId, iso } from "@card-rewards/e2e/World"
import { until } from "@card-rewards/testing/Polling"
import { freePort } from "@card-rewards/testing/Processes"
import { assert, it } from "@effect/vitest"
import { Duration, Effect } from "effect"

/** These posts take longer than a failing export: a second and three repeats, after which exports pause. */
const posts = 100
const pauseMillis = 50
const beyondPauseMillis = 61_000

/** Far longer than a post, and shorter than a failing export. */
const maxAnswerMillis = 2_000

const nameOf = ({ name, service }: { readonly name: string; readonly service: string }) => `${service} ${name}`
const apiSpan = "card-rewards-api SpendEvents.store"
const workerMetric = "card-rewards-worker card_rewards.spend_events.applied"

it.live("an unreachable collector delays no request and fills no log, and exports continue when it is back", () =>
  Effect.gen(function*() {
    const collectorPort = yield* freePort
    const { api, shiftClocks, client, worker } = yield* service({
      more: {
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${collectorPort}`,
        OTEL_METRIC_EXPORT_INTERVAL: "200",
        LOG_LEVEL: "info"
      }
    })
    const at = yield* seedIntegrator(client)
    const post = Effect.fnUntraced(function*(externalTransactionId: string) {
      yield* expect(202, client.sendWithRetries("POST", "/v1/spend-events", {
        kind: "clearing",
        integratorId,
        userId: "user:1",
        externalTransactionId,
        amount: { currency: "USD", amount: "12345" },
        merchant: { descriptor: "Shop", mcc: "5999" },
        occurredAt: iso(at - 1_000)
      }))
    })
    const longestPost = Effect.gen(function*() {
      let longestMillis = 0
      for (let sent = 0; sent < posts; sent++) {
        const [took] = yield* Effect.timed(post(`t${tries}-${sent}`))
        longestMillis = Math.max(longestMillis, Duration.toMillis(took))
        yield* Effect.sleep(pauseMillis)
      }
      return longestMillis
    })
    // a stalled machine only adds time, so that one good measurement of three is sufficient; each starts exports again
    let tries = 0
    let longestMillis = Infinity
    while (tries < 3 && longestMillis >= maxAnswerMillis) {
      yield* shiftClocks(beyondPauseMillis * tries++)
      longestMillis = yield* longestPost
    }
    const readBacklog = client.sendWithRetries("GET", "/v1/spend-events/backlog")
    const backlog = Effect.map(readBacklog, ({ text }) => JSON.parse(text))
    yield* until("processed", backlog, ({ stored }) => stored === 0)
    assert.isBelow(longestMillis, maxAnswerMillis)
    for (const { output } of [api, worker()]) {
      const lines = output().trim().split("\n")
      assert.isBelow(lines.length, 5, output())
      assert.notMatch(output(), /ECONNREFUSED|exporter/iu)
    }

    const collector = yield* listening(collectorPort)
    yield* shiftClocks(beyondPauseMillis * tries)
    const exported = Effect.sync(() => new Set([...collector.spans, ...collector.metrics()].map(nameOf)))
    yield* until(
      "what both processes export",
      Effect.andThen(post(`later ${performance.now()}`), Effect.map(exported, (names) => [...names].toSorted().join())),
      (names) => [apiSpan, workerMetric].every((one) => names.includes(one))
    )
  }).pipe(Effect.scoped))
