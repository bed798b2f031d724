import { processorTime } from "@card-rewards/testing/ProcessorTime"
import { clearing } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Bodies from "./badInput/Bodies.ts"
import * as Borders from "./badInput/Borders.ts"
import type { Case } from "./badInput/Case.ts"
import { fingerprint } from "./Stored.ts"
import { isDeepStrictEqual } from "node:util"

const cases = [...Bodies.cases, ...Borders.cases]

/** `PUT /v1/users/u`: what stands in one test, since a test for each of them takes longer than the requests. */
const operationOf = ({ method, part, path }: Case) =>
  part === "path" ? "what stands in a path" : `${method} ${path.split("?", 1)[0]}`
const operations = Map.groupBy(cases, operationOf)

layer(TestApi.layer(), { excludeTestServices: true })(
  `refused with 400, the part, the path and what was expected, and nothing is stored (${cases.length} requests)`,
  (it) => {
    for (const [operation, its] of operations) {
      it.effect(`${operation}: ${its.length} requests`, () =>
        Effect.gen(function*() {
          const api = yield* TestApi
          const stored = yield* fingerprint
          const wrong = yield* Effect.forEach(its, ({ message, method, part, path, title, ...sent }) =>
            Effect.map(api.send(method, path, sent), ({ body, headers, status, text }) => {
              const actual = {
                status,
                body,
                contentType: headers["content-type"],
                repeatsValue: text.includes(Bodies.refusedValue)
              }
              const expected = {
                status: 400,
                body: { _tag: "InvalidRequest", part, message },
                contentType: "application/json",
                repeatsValue: false
              }
              return isDeepStrictEqual(actual, expected) ? [] : [{ title, actual, expected }]
            }), { concurrency: 8 })
          assert.deepStrictEqual(wrong.flat(), [])
          assert.deepStrictEqual(yield* fingerprint, stored)
        }))
    }

    it.effect("one answer shows several problems, and 20 at most", () =>
      Effect.gen(function*() {
        const api = yield* TestApi
        const several = yield* api.send(
          "POST",
          "/v1/spend-events",
          { json: clearing({ userId: "", occurredAt: "x", extra: 1 }) }
        )
        assert.strictEqual(
          several.body["message"],
          "$.extra: is not known; $.userId: expected a string with between 1 and 128 code points; \
$.occurredAt: expected a UTC timestamp such as 2026-12-01T00:00:00.000Z"
        )
        const extra = Object.fromEntries(
          Array.from({ length: 1_000 }, (_, index) => [`key ${index} ${"x".repeat(100)}`, 1])
        )
        const many = String((yield* api.send("PUT", "/v1/users/u", { json: extra })).body["message"])
        assert.strictEqual(many.split("; ").length, 21)
        assert.match(many, /; and 980 more$/)
        assert.isBelow(many.length, 2_000)
      }))

    it.effect("of a large body the first problem is shown, and the search for it takes little time", () =>
      Effect.gen(function*() {
        const { send } = yield* TestApi
        const campaigns = Array.from({ length: 32_000 }, () => ({}))
        const empty = Array.from({ length: 340_000 }, () => ({}))
        const keysOf = (count: number) =>
          Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, 1]))
        const keys = keysOf(1_990)
        const cases = [
          [{ campaigns }, "/v1/programs/p/versions/1", "$.asset: is missing"],
          [{ ...keys, tier: Array.from({ length: 1_000 }) }, "/v1/users/u", "$.key0: is not known"],
          [keysOf(20_000), "/v1/users/u", "expected JSON of at most 2000 keys in an object"],
          [{ events: [keysOf(80_000)] }, "/v1/spend-events/batch", "expected JSON of at most 2000 keys in an object"],
          [{ events: [{ empty }] }, "/v1/spend-events/batch", "expected JSON of at most 65536 values"],
          [empty.slice(0, 80_000), "/v1/users/u", "expected JSON of at most 65536 values"],
          [clearing({ ...keys, merchant: keys }), "/v1/spend-events", "$.key0: is not known"],
          [clearing(keysOf(200)), "/v1/spend-events", "$.key0: is not known"],
          [{ events: [keys], ...keys }, "/v1/spend-events/batch", "$.key0: is not known"]
        ] as const
        const valid = yield* processorTime(Effect.repeat(send("PUT", "/v1/users/u", { json: {} }), { times: 29 }))
        for (const [json, path, first] of cases) {
          const method = path.includes("spend-events") ? "POST" : "PUT"
          const parsed = yield* processorTime(Effect.sync(() => {
            for (let left = 5; left > 0; left--) JSON.parse(JSON.stringify(json))
          }))
          const refused = yield* processorTime(Effect.gen(function*() {
            for (let left = 5; left > 0; left--) {
              const answer = yield* send(method, path, { json })
              assert.strictEqual(answer.status, 400, path)
              assert.strictEqual(answer.body["message"], first, path)
            }
          }))
          // at most twice what a valid body and the JSON take; all problems of the first one take 41 times as much
          assert.isBelow(refused / (valid / 6 + parsed), 10, path)
        }
      }))

    it.effect("a content type of any length is read in little time", () =>
      Effect.gen(function*() {
        const { send } = yield* TestApi
        const timeOf = (end: string) =>
          processorTime(Effect.gen(function*() {
            const headers = { "content-type": `application/json${end}` }
            for (let left = 30; left > 0; left--) {
              const { body } = yield* send("PUT", "/v1/users/u", { json: {}, headers })
              assert.strictEqual(body["message"], "expected the content type application/json")
            }
          }))
        const other = yield* timeOf("x".repeat(15_000))
        // with two adjacent `\s*` it took more than a hundred times as long
        assert.isBelow((yield* timeOf(`${" ".repeat(15_000)}x`)) / other, 6)
      }))

    it.effect("a path or a query of any content is read in little time", () =>
      Effect.gen(function*() {
        const { send } = yield* TestApi
        const timeOf = (path: string, status: number) =>
          processorTime(Effect.gen(function*() {
            for (let left = 30; left > 0; left--) {
              assert.strictEqual((yield* send("GET", path)).status, status, path.slice(0, 20))
            }
          }))
        const cases = [
          [`/${"%/".repeat(7_000)}%`, 404],
          [`/v1/users/${"%25".repeat(5_000)}`, 404],
          [`/health?${"%&".repeat(7_000)}`, 204]
        ] as const
        // each of the cases took 15 to 34 times as long for itself
        const valid = yield* timeOf(`/health?${"%25&".repeat(3_500)}`, 204)
        for (const [path, status] of cases) {
          assert.isBelow((yield* timeOf(path, status)) / valid, 6, `of a valid query: ${path.slice(0, 20)}`)
        }
      }))

    it("are different requests", () => assert.strictEqual(new Set(cases.map(({ title }) => title)).size, cases.length))
  }
)
