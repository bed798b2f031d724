import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { Log } from "./Log.ts"

const acme = IntegratorId.make("acme")
const hook = EndpointId.make("hook")

/** The api's operations, on PostgreSQL and on the log. */
export const apiOf = Effect.fnUntraced(function*(log: Log, random: () => number) {
  const endpoints = yield* WebhookEndpoints
  const { findReplay, redeliver, startReplay } = yield* DeliveryLog
  const sql = yield* SqlClient.SqlClient
  let urls = 0
  const change = Effect.fnUntraced(function*(now: number) {
    if (random() < 0.6) {
      yield* endpoints.update(acme, hook, `http://127.0.0.1:9/${++urls}`)
      log.changeUrl(now)
    } else {
      yield* endpoints.remove(acme, hook)
      yield* endpoints.create(acme, { id: hook, url: `http://127.0.0.1:9/${++urls}` })
      log.replaceEndpoint()
    }
  })
  const again = Effect.fnUntraced(function*(now: number) {
    const number = 1 + Math.floor(random() * (log.events.length + 1))
    const eventId = `evt_0123456789abcdef${number.toString(16).padStart(12, "0")}`
    const known = yield* Effect.isSuccess(redeliver(acme, hook, eventId))
    assert.strictEqual(known, number <= log.events.length)
    log.redeliver(BigInt(number), now)
  })
  const replay = Effect.fnUntraced(function*(now: number) {
    const [one, other] = [Math.floor(random() * (log.events.length + 1)), Math.floor(random() * log.events.length)]
    const [after, last] = one < other ? [one, other] : [other, one]
    const isOfRewards = random() < 0.5
    const times = yield* sql<{ at: number }>`SELECT created_at AS at FROM events ORDER BY event`
    const [from, to] = [times[after]?.at ?? Date.now(), times[last]?.at]
    if (from === to) return
    const kinds = isOfRewards ? { kinds: ["reward.pending", "reward.paid"] as const } : {}
    const upTo = to === undefined ? {} : { to: instant(to) }
    const started = yield* Effect.result(startReplay(acme, hook, { from: instant(from), ...upTo, ...kinds }))
    const expected = log.startReplay({ after: BigInt(after), last: BigInt(last), isOfRewards }, now)
    assert.strictEqual(Result.isSuccess(started), expected !== undefined)
    if (Result.isFailure(started) || expected === undefined) return
    const { events, id } = started.success
    assert.deepStrictEqual([events, id], [log.eventsOf(expected).length, `rpl_${expected.round}`])
    assert.deepStrictEqual(yield* findReplay(acme, hook, id), started.success)
  })
  return { again, change, replay }
})
