import { EndpointId, Reference } from "@card-rewards/domain/Ids"
import { ApiServer } from "@card-rewards/testing/ApiServer"
import { FreshDatabase, operators } from "@card-rewards/testing/FreshDatabase"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { TestService } from "@card-rewards/testing/TestService"
import { assert, it, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"

it("the example of the README is a test of this package, word for word", () => {
  const read = (file: string) => readFileSync(new URL(file, import.meta.url), "utf8")
  const [, example] = /```ts\n([^]*?)```/.exec(read("../README.md")) ?? []
  assert.strictEqual(example, read("Example.test.ts"))
})

layer(TestService.layer({ retryDelays: [1, 1] }), { excludeTestServices: true })("the service in a test", (it) => {
  it.effect("is idle when the deliveries that the receiver refused are exhausted", () =>
    Effect.gen(function*() {
      const { api, idle } = yield* TestService
      const receiver = yield* WebhookReceiver
      const sql = yield* SqlClient.SqlClient
      receiver.answer(({ body }) => body.includes('"d1"') ? 500 : { status: 204, headers: { "x-test": "1" } })
      yield* api.webhookEndpoints.create({ payload: { id: EndpointId.make("main"), url: receiver.url } })
      for (const reference of ["d1", "d2"]) {
        const amount = { asset: "USDC" as const, amount: 1n }
        yield* api.sandbox.deposit({ payload: { reference: Reference.make(reference), amount } })
      }
      yield* idle
      assert.sameMembers(receiver.received.map(({ body }) => JSON.parse(body).data.reference), ["d1", "d1", "d1", "d2"])
      const retries = yield* sql<{ event: bigint; state: string }>`SELECT event, state FROM retries`
      assert.deepStrictEqual(retries, [{ event: 1n, state: "exhausted" }])
    }))
})

layer(ApiServer.layer({ environment: "production" }).pipe(
  Layer.provideMerge(operators("production")),
  Layer.provideMerge(FreshDatabase.layer)
), { excludeTestServices: true })("the api alone", (it) => {
  it.effect("serves production without the sandbox", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* ApiServer
      const status = (path: string) => Effect.promise(async () => (await fetch(`${baseUrl}${path}`)).status)
      assert.deepStrictEqual([yield* status("/health"), yield* status("/v1/sandbox/vault")], [204, 404])
    }))
})

it("each test has a database of its own", () =>
  Effect.gen(function*() {
    const url = Effect.map(FreshDatabase, ({ url }) => Redacted.value(url))
    const fresh = Effect.provide(url, Layer.fresh(FreshDatabase.layer))
    const [one, other] = yield* Effect.all([fresh, fresh])
    assert.notStrictEqual(one, other)
  }).pipe(Effect.runPromise))
