import * as Database from "@card-rewards/core/Database"
import { Secrets } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { untilTrue } from "@card-rewards/testing/Polling"
import { start } from "@card-rewards/testing/Processes"
import { secretsKeys, secretsKeyText } from "@card-rewards/testing/Secrets"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { endpoint, events, allDelivered } from "./Dispatching.ts"

class Url extends Context.Service<Url, string>()("test/Url") {}

const services = Layer.unwrap(Effect.gen(function*() {
  const url = yield* TestDatabase.makeMigrated(Database.migrate)
  return WebhookEndpoints.layer({ allowPrivateNetwork: true }).pipe(
    Layer.provide(Secrets.layer({ keys: secretsKeys })),
    Layer.provideMerge(Database.layer({ url, poolSize: 4, applicationName: "test" })),
    Layer.merge(Layer.succeed(Url, Redacted.value(url)))
  )
}))

/** A worker's process; it is killed with the scope at the latest. */
const worker = Effect.gen(function*() {
  const env = {
    DATABASE_URL: yield* Url,
    SECRETS_KEY: secretsKeyText,
    WEBHOOK_ALLOW_PRIVATE_NETWORK: "true",
    WEBHOOK_RETRY_DELAYS: "50ms,100ms,200ms,1s,1s,1s",
    LOG_LEVEL: "error"
  }
  return yield* start("worker", env)
})

const count = 300
const rewards = 40
/** How many requests have arrived when the worker of the moment is killed, and whether they are answered then. */
const kills = [{ after: 1, answers: false }, { after: 60, answers: true }, { after: 180, answers: false }]

/** The events of requests that have arrived more often than attempts are recorded. */
const unrecorded = Effect.fnUntraced(function*(hook: WebhookReceiver["Service"]) {
  const sql = yield* SqlClient.SqlClient
  const recorded = yield* sql<{ event: bigint; attempts: number }>`
    SELECT event, count(*)::int4 AS attempts FROM delivery_attempts GROUP BY event`
  const attempts = new Map(recorded.map((row) => [Number(row.event), row.attempts]))
  const arrived = Map.groupBy(hook.received, ({ body }) => Number(/\d+/.exec(body)?.[0]))
  return [...arrived].flatMap(([event, requests]) => requests.length > (attempts.get(event) ?? 0) ? [event] : [])
})

it.live("a killed worker loses nothing, repeats at most what was in flight, and keeps each reward's order", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const sql = yield* SqlClient.SqlClient
    yield* endpoint("acme", `${hook.origin}/hook`)
    yield* events("acme", count, { rewards })
    let failures = 0
    hook.answer(() => hook.received.length % 10 === 3 && failures++ < 20 ? 500 : 200)
    const mayRepeat: Array<number> = []
    for (const { after, answers } of kills) {
      yield* Effect.scoped(Effect.gen(function*() {
        const { exit, send } = yield* worker
        const held: Array<() => void> = []
        // unanswered requests pile up to what may be in flight; the kill meets them there
        if (!answers) hook.hold((respond) => hook.received.length < after ? respond() : held.push(respond))
        yield* untilTrue(Effect.sync(() => hook.received.length >= after))
        yield* send("SIGKILL")
        yield* exit
        hook.hold(undefined)
      }))
      // what it sent last, PostgreSQL may still be doing
      const sessions = sql`SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'card-rewards worker'`
      yield* untilTrue(Effect.map(sessions, (rows) => rows.length === 0))
      mayRepeat.push(...yield* unrecorded(hook))
      // as after 30 s
      yield* sql`UPDATE webhook_endpoints SET work_at = now() WHERE worker IS NOT NULL`
    }
    const last = yield* worker
    yield* untilTrue(allDelivered)
    assert.strictEqual(last.output(), "")
    const order = hook.received.map(({ body }) => Number(/\d+/.exec(body)?.[0]))
    assert.strictEqual(new Set(order).size, count)
    const [attempts] = yield* sql<{ delivered: number; recorded: number }>`SELECT count(*)::int4 AS recorded,
      (count(*) FILTER (WHERE status = 200))::int4 AS delivered FROM delivery_attempts`
    assert.strictEqual(attempts?.delivered, count)
    // what arrived without being recorded is what was in flight at one of the kills
    assert.isAtMost(order.length - (attempts?.recorded ?? 0), mayRepeat.length)
    const arrivals = Map.groupBy(order, (event) => event)
    const recorded = yield* sql<{ event: bigint; attempts: number }>`
      SELECT event, count(*)::int4 AS attempts FROM delivery_attempts GROUP BY event`
    for (const { attempts, event } of recorded) {
      const repeats = (arrivals.get(Number(event))?.length ?? 0) - attempts
      assert.isAtMost(repeats, mayRepeat.filter((one) => one === Number(event)).length, `event ${event}`)
    }
    for (let reward = 0; reward < rewards; reward++) {
      const own = order.filter((event) => event % rewards === reward)
      assert.deepStrictEqual(own, own.toSorted((a, b) => a - b), `reward ${reward}`)
    }
  }).pipe(Effect.scoped, Effect.provide(services)))
