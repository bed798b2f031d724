import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { Vault } from "@card-rewards/core/Vault"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { verify, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { untilTrue } from "@card-rewards/testing/Polling"
import { type Received, WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { services as layerOf } from "./Dispatching.ts"

/*
 * The contract promises that a change takes effect within a minute. Nothing is cached between scans: the dispatcher
 * scans every 150 ms, reads endpoint, URL and secrets with each scan, and checks them again before it sends. So each
 * change takes effect with the next scan.
 */
const longestMillis = 60_000

const services = Layer.mergeAll(Integrators.layer, Vault.layer).pipe(
  Layer.provideMerge(Environment.layer("sandbox")),
  Layer.provideMerge(layerOf())
)

const acme = IntegratorId.make("acme")
const hookId = EndpointId.make("hook")

let deposits = 0

/** Makes an event by a deposit of one unit. Returns the reference of the deposit. */
const happen = Effect.gen(function*() {
  const reference = Reference.make(`deposit-${++deposits}`)
  yield* (yield* Vault).deposit(acme, { reference, amount: { asset: "USDC", amount: 1n } })
  return reference
})

const tells = (reference: string) => ({ body }: Received) => body.includes(`"${reference}"`)

/** Waits until an event with the reference is received. Returns how long that took. */
const arrival = (hook: WebhookReceiver["Service"], reference: string) =>
  Effect.timed(untilTrue(Effect.sync(() => hook.received.some(tells(reference))))).pipe(
    Effect.map(([took]) => assert.isBelow(Duration.toMillis(took), longestMillis))
  )

const setUp = Effect.fnUntraced(function*(delayMillis: number) {
  const hook = yield* WebhookReceiver.make()
  yield* (yield* Integrators).create(acme)
  yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [delayMillis, ...Array(49).fill(delayMillis)] }))
  return { hook, endpoints: yield* WebhookEndpoints, url: `${hook.origin}/hook` }
})

it.live("a new endpoint receives the events since its creation; a changed URL the waiting ones too", () =>
  Effect.gen(function*() {
    const { endpoints, hook, url } = yield* setUp(3_600_000)
    const before = yield* happen
    yield* endpoints.create(acme, { id: hookId, url })
    const after = yield* happen
    yield* arrival(hook, after)
    hook.answer(({ path }) => path === "/hook" ? 500 : 200)
    const waiting = yield* happen
    yield* arrival(hook, waiting)
    yield* endpoints.update(acme, hookId, `${hook.origin}/other`)
    yield* untilTrue(Effect.sync(() => hook.received.some((one) => one.path === "/other" && tells(waiting)(one))))
    const following = yield* happen
    yield* arrival(hook, following)
    assert.isTrue(hook.received.filter(tells(following)).every(({ path }) => path === "/other"))
    assert.isFalse(hook.received.some(tells(before)), "what happened without an endpoint is not delivered")
  }).pipe(Effect.scoped, Effect.provide(services)))

it.live("a deleted endpoint receives nothing more, not even events that wait for another attempt", () =>
  Effect.gen(function*() {
    const { endpoints, hook, url } = yield* setUp(100)
    yield* endpoints.create(acme, { id: hookId, url })
    hook.answer(() => 500)
    const waiting = yield* happen
    yield* arrival(hook, waiting)
    yield* untilTrue(Effect.sync(() => hook.received.filter(tells(waiting)).length >= 2))
    yield* endpoints.remove(acme, hookId)
    const before = hook.received.length
    const later = yield* happen
    const sql = yield* SqlClient.SqlClient
    const left = sql`SELECT FROM retries`
    yield* untilTrue(Effect.map(left, (rows) => rows.length === 0))
    // several scans, and several times the delay before the next attempt
    yield* Effect.sleep(1_000)
    const received = hook.received.length
    assert.isAtMost(received - before, 1, "only an attempt that was on its way may still arrive")
    assert.isFalse(hook.received.some(tells(later)))
    // the id can be used again: by a new endpoint, which receives the events since then
    hook.answer(() => 200)
    yield* endpoints.create(acme, { id: hookId, url })
    const anew = yield* happen
    yield* arrival(hook, anew)
    assert.isTrue(hook.received.slice(received).every(tells(anew)))
  }).pipe(Effect.scoped, Effect.provide(services)))

it.live("a new signing secret signs the next attempt, even of an older event", () =>
  Effect.gen(function*() {
    const { endpoints, hook, url } = yield* setUp(400)
    const created = yield* endpoints.create(acme, { id: hookId, url })
    hook.answer(() => 500)
    const older = yield* happen
    yield* arrival(hook, older)
    const rotated = yield* endpoints.rotateSecret(acme, hookId)
    const newer = yield* happen
    // an attempt that was in flight is signed with the old secret only
    const signedTwice = ({ headers }: Received) =>
      `${headers["x-service-signature"]}`.split("v1=").length === 3
    const found = (reference: string) => hook.received.find((one) => tells(reference)(one) && signedTwice(one))
    yield* untilTrue(Effect.sync(() => [older, newer].every(found)))
    const signedBy = (secret: string | undefined) => ({ body, headers }: Received) =>
      Effect.isSuccess(verify({
        secrets: [WebhookSecret.make(secret ?? "")],
        signature: `${headers["x-service-signature"]}`,
        body,
        nowSeconds: Number(headers["webhook-timestamp"]),
        toleranceSeconds: 5
      }))
    for (const delivery of [older, newer].map(found)) {
      if (delivery === undefined) continue
      assert.isTrue(yield* signedBy(rotated.secret)(delivery))
      assert.isTrue(yield* signedBy(created.secret)(delivery))
    }
  }).pipe(Effect.scoped, Effect.provide(services)))
