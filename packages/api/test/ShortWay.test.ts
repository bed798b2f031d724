import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { maxBytes } from "../src/Http/Body.ts"
import { type Answer, clearing, TestApi } from "./TestApi.ts"

const options = { timeout: "60 seconds", excludeTestServices: true } as const

/** Bodies by what they are; `id` makes those of the two ways different events. */
const bodies: Readonly<Record<string, (id: string) => string | Uint8Array>> = {
  "an event": (id) => JSON.stringify(clearing({ externalTransactionId: id })),
  "with every field": (id) =>
    JSON.stringify(clearing({
      externalTransactionId: id,
      authorizationId: "a1",
      merchant: { descriptor: "Café ☕", mcc: "5411", mid: "m", country: "DE" }
    })),
  "known": () => JSON.stringify(clearing({ externalTransactionId: "known" })),
  "a conflict": () => JSON.stringify(clearing({ externalTransactionId: "known", amount: { currency: "USD", amount: "1" } })),
  "in the future": (id) => JSON.stringify(clearing({ externalTransactionId: id, occurredAt: "9999-01-01T00:00:00.000Z" })),
  "of nobody": (id) => JSON.stringify(clearing({ externalTransactionId: id, userId: "nobody" })),
  "another's": (id) => JSON.stringify(clearing({ externalTransactionId: id, integratorId: "other" })),
  "with too much": (id) => JSON.stringify(clearing({ externalTransactionId: id, tip: "1" })),
  "with several faults": (id) => JSON.stringify(clearing({ externalTransactionId: id, kind: "sale", userId: "" })),
  "with an impossible day": (id) =>
    JSON.stringify(clearing({ externalTransactionId: id, occurredAt: "2026-02-30T00:00:00.000Z" })),
  "no JSON": () => "{",
  "nothing": () => "",
  "a list": () => "[]",
  "null": () => "null",
  "not UTF-8": () => Uint8Array.of(0x22, 0xff, 0x22),
  "too deep": () => "[".repeat(65),
  "too large": () => `"${"x".repeat(maxBytes)}"`
}

const comparable = ({ body, headers, status }: Answer, id: string) => ({
  status,
  body: JSON.stringify(body).replaceAll(id, "id"),
  type: headers["content-type"],
  length: headers["content-length"],
  limit: headers["ratelimit"],
  policy: headers["ratelimit-policy"],
  retry: headers["retry-after"]
})

/** A content type that only the router's way reads. */
const routed = { "content-type": "application/json;charset=utf-8" }

const twoWays = Effect.fnUntraced(function*(kind: string, key?: string) {
  const api = yield* TestApi
  const body = bodies[kind] ?? (() => "")
  const way = (id: string, headers: Readonly<Record<string, string>>) =>
    Effect.map(
      api.send("POST", "/v1/spend-events", { raw: body(id), headers, ...(key === undefined ? {} : { key }) }),
      (answer) => comparable(answer, id)
    )
  // the first answer makes the key a remembered one
  yield* api.send("GET", "/v1/spend-events/backlog", key === undefined ? {} : { key })
  return { short: yield* way(`s-${kind.length}`, {}), router: yield* way(`r-${kind.length}`, routed) }
})

const setUp = Effect.gen(function*() {
  const api = yield* TestApi
  yield* api.send("PUT", "/v1/users/ann", { json: {} })
  yield* api.send("POST", "/v1/spend-events", { json: clearing({ externalTransactionId: "known" }) })
})

layer(TestApi.layer(), options)("the short way answers as the router's", (it) => {
  it.effect.each(Object.keys(bodies))("%s", (kind) =>
    Effect.gen(function*() {
      yield* setUp
      const { router, short } = yield* twoWays(kind)
      assert.deepStrictEqual(short, router)
    }))

  it.effect("a suspended integrator", () =>
    Effect.gen(function*() {
      const integrators = yield* Integrators
      const { otherKey } = yield* TestApi
      yield* integrators.suspend(IntegratorId.make("other"))
      const { router, short } = yield* twoWays("an event", otherKey)
      assert.deepStrictEqual(short, router)
      assert.strictEqual(short.status, 403)
    }))
})

layer(TestApi.layer({ limits: { ingest: { perSecond: 0.001, burst: 3 } } }), options)("a rate limit", (it) => {
  it.effect("holds for both ways together, a token for each request whatever comes of it", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", "/v1/users/ann", { json: {} })
      const statuses: Array<number> = []
      for (const [kind, headers] of [["no JSON", {}], ["of nobody", {}], ["an event", routed], ["an event", {}]] as const) {
        const raw = bodies[kind]?.("x") ?? ""
        statuses.push((yield* api.send("POST", "/v1/spend-events", { raw, headers })).status)
      }
      assert.deepStrictEqual(statuses, [400, 422, 202, 429])
    }))
})
