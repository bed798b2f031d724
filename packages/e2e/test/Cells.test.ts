import { Collector } from "@card-rewards/e2e/Collector"
import { emptyDatabase, healthy, query } from "@card-rewards/e2e/Setting"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { until } from "@card-rewards/testing/Polling"
import { admin, freePort, start, variables } from "@card-rewards/testing/Processes"
import * as RawClient from "@card-rewards/testing/RawClient"
import { createEndpoint, enroll, moveMoney, publish, setClock, spend } from "@card-rewards/testing/Requests"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import { createHash } from "node:crypto"

/** Decisions, section 3: 503 within 5 s. */
const refusedMillis = 5_000
const worksAgainMillis = 10_000
const atOnceMillis = 200

/** The first slots of the cells: two schemas of one database, and one of another. */
const slots = { a: "0-99", b: "128-255", c: "100-127" } as const
type Name = keyof typeof slots
const names = ["a", "b", "c"] as const

const slotOf = (id: string) => createHash("sha256").update(id).digest()[0] ?? 0
const ids = Array.from({ length: 100 }, (_, index) => `integrator-${index}`)
const idIn = (name: Name) => {
  const [first = 0, last = 0] = slots[name].split("-").map(Number)
  return ids.find((id) => slotOf(id) >= first && slotOf(id) <= last) ?? assert.fail(`no integrator in ${name}`)
}
const idOf: Readonly<Record<Name, string>> = { a: idIn("a"), b: idIn("b"), c: idIn("c") }

/** The three cells with an integrator each, and their processes' environment. */
const setUp = Effect.gen(function*() {
  const [near, far] = [yield* emptyDatabase, yield* emptyDatabase]
  const proxy = yield* NetworkProxy.toDatabase
  const [ac, b] = [near, Redacted.value(proxy.through(Redacted.make(far)))]
  const cells = (["a", "c"] as const).map((name) => `${name}=${ac}?schema=cell_${name}&slots=${slots[name]}`)
  const port = yield* freePort
  const CELLS = [...cells, `b=${b}?schema=cell_b&slots=${slots.b}`].join()
  const collector = yield* Collector
  const env = variables("", { PORT: `${port}`, CELLS, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })

  yield* admin(env, "migrate")
  const keys = new Map<Name, string>()
  for (const name of names) {
    const created = JSON.parse(yield* admin(env, "integrator", "create", idOf[name], "--json"))
    assert.include(created.apiKey, `_${slotOf(idOf[name]).toString(16).padStart(2, "0")}`)
    keys.set(name, created.apiKey)
  }
  const schemas = yield* query<{ id: string }>(near, `SELECT 'a ' || integrator_id AS id FROM cell_a.integrators
    UNION ALL SELECT 'c ' || integrator_id FROM cell_c.integrators ORDER BY 1`)
  assert.deepStrictEqual(schemas.map(({ id }) => id), [`a ${idOf.a}`, `c ${idOf.c}`])
  const clientOf = (name: Name) =>
    RawClient.make({ baseUrl: () => `http://127.0.0.1:${port}`, apiKey: keys.get(name) ?? "" })
  /** One api and one worker. */
  const startBoth = Effect.gen(function*() {
    const api = yield* start("api", env)
    const worker = yield* start("worker", env)
    yield* healthy(port, api)
    return { api, worker }
  })
  return { env, proxy, startBoth, clients: { a: clientOf("a"), b: clientOf("b"), c: clientOf("c") } }
})

const purchase = (name: Name, id: string) =>
  spend({ integratorId: idOf[name], externalTransactionId: id, occurredAt: "2099-12-01T12:00:00.000Z" })

/** A purchase becomes a reward. Returns after how many milliseconds. */
const isProcessed = Effect.fnUntraced(function*(client: RawClient.RawClient, name: Name, id: string) {
  const begin = performance.now()
  const answer = yield* client.sendWithRetries(...purchase(name, id))
  assert.strictEqual(answer.status, 202, answer.text)
  const rewards = client.send("GET", "/v1/users/ann/rewards")
  yield* until(`reward of ${name} ${id}`, rewards, ({ text }) => text.includes(`"${id}"`))
  return performance.now() - begin
})

it.live("three cells behind one api and one worker; while the database of one is away the others notice nothing", () =>
  Effect.gen(function*() {
    const receiver = yield* WebhookReceiver
    const { clients, env, proxy, startBoth } = yield* setUp
    const processes = yield* startBoth
    const expect = (status: number, name: Name, ...request: Parameters<RawClient.RawClient["send"]>) =>
      Effect.map(clients[name].send(...request), (answer) =>
        assert.strictEqual(answer.status, status, `${name}: ${request[1]}: ${answer.text}`))
    for (const name of names) {
      yield* expect(201, name, ...createEndpoint("e", `${receiver.origin}/${name}`))
      yield* expect(200, name, ...enroll("ann"))
      yield* expect(200, name, ...publish("p", 1))
      yield* expect(200, name, ...setClock("2099-12-02T00:00:00.000Z"))
      yield* expect(200, name, ...moveMoney("deposits", "d", "900000000"))
    }
    /** A purchase becomes a reward, and its webhook arrives. */
    const works = Effect.fnUntraced(function*(name: Name, id: string) {
      yield* isProcessed(clients[name], name, id)
      const arrived = Effect.sync(() =>
        receiver.received.some(({ body, path }) =>
          path === `/${name}` && body.includes("reward.pending") && body.includes(`"${id}"`)
        )
      )
      yield* until(`webhook of ${name} ${id}`, arrived, (has) => has)
    })
    yield* Effect.forEach(names, (name) => works(name, "first"), { concurrency: 3 })
    // an integrator of one cell is nobody in another one
    yield* expect(403, "a", ...purchase("b", "wrong"))

    yield* proxy.cut
    const [took] = yield* Effect.timed(expect(503, "b", ...purchase("b", "away")))
    assert.isBelow(Duration.toMillis(took), refusedMillis)
    yield* Effect.forEach(["a", "c"] as const, (name) => works(name, "meanwhile"), { concurrency: 2 })
    // soon its requests are refused at once, so that they take no room of the others'
    const refusal = Effect.map(Effect.timed(expect(503, "b", ...purchase("b", "away"))), ([took]) => took)
    yield* until("a refusal at once", refusal, (took) => Duration.toMillis(took) < atOnceMillis, 20)

    // processes that start without one of the databases serve the others, and that one when it is back
    for (const child of Object.values(processes)) {
      yield* child.send("SIGTERM")
      assert.strictEqual(yield* child.exit, 0, child.output())
    }
    const durations = (yield* Collector).metrics().filter(({ name }) => name === "http.server.request.duration")
    const points = durations.flatMap(({ histogram }) => histogram?.dataPoints ?? [])
    const measured = points.flatMap(({ attributes }) => attributes.filter(({ key }) => key === "card_rewards.cell"))
    assert.sameMembers([...new Set(measured.map(({ value }) => value.stringValue))], ["a", "b", "c"])
    const again = yield* startBoth
    yield* works("a", "restarted")
    yield* expect(503, "b", ...purchase("b", "away"))
    yield* proxy.restore
    assert.isBelow(yield* isProcessed(clients.b, "b", "back"), worksAgainMillis)
    for (const child of Object.values(again)) assert.isTrue(child.isAlive(), child.output())

    yield* admin(env, "audit", "--cell", "b")
    const listed = JSON.parse(yield* admin(env, "cells", "list", "--json")) as ReadonlyArray<Record<string, unknown>>
    assert.deepStrictEqual(listed.map(({ cell, integrators, slots }) => [cell, slots, integrators]), [
      ["a", slots.a, 1],
      ["c", slots.c, 1],
      ["b", slots.b, 1]
    ])
    assert.include(yield* admin(env, "integrator", "list", "--cell", "b", "--json"), idOf.b)
  }).pipe(Effect.provide([WebhookReceiver.layer, Collector.layer]), Effect.scoped))
