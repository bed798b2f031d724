import { untilTrue } from "@card-rewards/testing/Polling"
import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Agent, request } from "undici"
import { endpoint, events, services } from "./Dispatching.ts"
import * as ReceiverProcess from "./ReceiverProcess.ts"

const full = process.env["WEBHOOK_BENCH"] === "full"
const endpoints = Number(process.env["WEBHOOK_BENCH_ENDPOINTS"] ?? 64)
const each = Math.round((full ? 16_000 : 1_600) / endpoints)
const count = endpoints * each
const bodyBytes = 600
/** The limit of the dispatcher for requests in flight. */
const connections = Math.min(512, endpoints * 16)

/** Posts the same bytes with undici alone, as fast as it can. Returns the posts per second. */
const bare = (url: string) =>
  Effect.promise(async () => {
    const agent = new Agent({ connections, pipelining: 1 })
    const body = `{"n":1,"é":"ü","filler":"${"x".repeat(bodyBytes)}"}`
    const headers = { "content-type": "application/json" }
    let left = count
    const loop = async () => {
      while (left-- > 0) {
        const answer = await request(url, { method: "POST", body, dispatcher: agent, headers })
        await answer.body.dump()
      }
    }
    const startedAt = performance.now()
    await Promise.all(Array.from({ length: connections }, loop))
    const perSecond = count / (performance.now() - startedAt) * 1_000
    await agent.close()
    return perSecond
  })

it.live("delivers at a good part of the speed of posts of the same bytes without lease, signature and record", () =>
  Effect.gen(function*() {
    const url = yield* ReceiverProcess.make
    for (let index = 0; index < endpoints; index++) {
      yield* endpoint(`i${index}`, `${url}/hook`)
      yield* events(`i${index}`, each, { size: bodyBytes })
    }
    const sql = yield* SqlClient.SqlClient
    yield* sql`ANALYZE`
    // the first run is slower than any other
    yield* bare(url)
    const before = yield* bare(url)
    const startedAt = performance.now()
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [1_000] }))
    const left = sql`${sql.literal(undelivered)} LIMIT 1`
    yield* untilTrue(Effect.map(left, (rows) => rows.length === 0))
    const perSecond = count / (performance.now() - startedAt) * 1_000
    const after = yield* bare(url)
    const ratio = 2 * perSecond / (before + after)
    const figures = [perSecond, before, after].map(Math.round).join(", ")
    yield* Effect.logInfo(`deliveries/s, bare posts/s before and after: ${figures}; ratio ${ratio.toFixed(2)}`)
    const [attempts] = yield* sql<{ count: number }>`SELECT count(*)::int4 AS count FROM delivery_attempts`
    assert.strictEqual(attempts?.count, count)
    // far below the measured ratio: other tests run at the same time
    assert.isAbove(ratio, 0.03)
  }).pipe(Effect.scoped, Effect.provide(services())))
