import * as Database from "@card-rewards/core/Database"
import { untilTrue } from "@card-rewards/testing/Polling"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { endpoint, events, services } from "./Dispatching.ts"

const full = process.env["WEBHOOK_BENCH"] === "full"
const integrators = full ? 200 : 100
const seconds = full ? 20 : 2
const tickMillis = 100

interface Bad {
  readonly hanging: number
  readonly slow: number
}

/** The 99th percentile of the time until the first request of the good integrators' events, in milliseconds. */
const delayOfTheOthers = (bad: Bad) =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const delays: Array<number> = []
    hook.answer(({ body, path }) => {
      if (path === "/hang") return undefined
      if (path === "/slow") return { status: 200, delayMillis: 14_000 }
      delays.push(Date.now() - Number(/"at":(\d+)/.exec(body)?.[1]))
      return 200
    })
    const nameOf = (index: number) => `i${String(index).padStart(3, "0")}`
    for (let index = 0; index < integrators; index++) {
      const isBad = index < bad.hanging + bad.slow
      const path = index < bad.hanging ? "/hang" : isBad ? "/slow" : "/good"
      yield* endpoint(nameOf(index), `${hook.origin}${path}`)
      if (isBad) yield* events(nameOf(index), 100)
    }
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [60_000] }))
    // the bad endpoints get all slots that they can before other deliveries are due
    yield* Effect.sleep(bad.hanging + bad.slow === 0 ? 300 : 1_500)
    const good = Array.from({ length: integrators - bad.hanging - bad.slow }, (_, index) =>
      nameOf(index + bad.hanging + bad.slow))
    // makes connections, and lets V8 compile the code
    yield* oneEventEach(good)
    yield* untilTrue(Effect.sync(() => delays.length === good.length))
    delays.length = 0
    const ticks = seconds * 1_000 / tickMillis
    for (let tick = 1; tick <= ticks; tick++) {
      yield* oneEventEach(busyAt(good, tick))
      yield* Effect.sleep(tickMillis)
    }
    const sent = Array.from({ length: ticks }, (_, tick) => busyAt(good, tick + 1)).flat().length
    yield* untilTrue(Effect.sync(() => delays.length === sent))
    yield* hook.close
    return delays.toSorted((a, b) => a - b)[Math.floor(delays.length * 0.99)] ?? Number.NaN
  }).pipe(Effect.scoped, Effect.provide(services()))

/** The integrators with an event at a tick: each has one event a second. */
const busyAt = (names: ReadonlyArray<string>, tick: number) => names.filter((_, index) => index % 10 === tick % 10)

const oneEventEach = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const at = Database.value.timestamptz(now)
  const of = Database.columns.text(names)
  yield* sql.withTransaction(Effect.all([
    sql`WITH numbers AS (
        UPDATE vaults SET events = events + 1 WHERE integrator_id = ANY(${of}) RETURNING integrator_id, events
      )
      INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
      SELECT integrator_id, events, 'evt', 'webhook.ping', ${at}, ${at}, ${`{"at":${now}}`} FROM numbers`,
    sql`UPDATE webhook_endpoints SET work_at = ${at} WHERE integrator_id = ANY(${of}) AND worker IS NULL`
  ]))
})

const measured = Effect.gen(function*() {
  const alone = yield* delayOfTheOthers({ hanging: 0, slow: 0 })
  const withTwo = yield* delayOfTheOthers({ hanging: 1, slow: 1 })
  const withMany = yield* delayOfTheOthers({ hanging: integrators / 2 - 10, slow: 10 })
  yield* Effect.logInfo(`p99 delay of the others: ${alone} ms alone, ${withTwo} ms beside one that hangs and `
    + `one that answers in 14 s, ${withMany} ms beside ${integrators / 2} of them`)
  // the delays of the machine are included: each event is sent after a few scans at most
  assert.isBelow(withTwo, 2 * alone + 500)
  assert.isBelow(withMany, 2 * alone + 1_500)
})

it.live("endpoints that hang or answer after 14 s do not delay the others, however many of them there are", () =>
  // a busy machine only adds delay, so that one good measurement of three is sufficient
  Effect.catchDefect(measured, (defect) => Effect.fail(defect)).pipe(Effect.retry({ times: 2 }), Effect.orDie), 240_000)
