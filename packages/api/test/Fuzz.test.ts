import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import type { Answer } from "@card-rewards/testing/HttpExchange"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Console, Effect, Redacted } from "effect"
import { assertDeclared, type Declared, endpoints } from "./Declared.ts"
import { type Mutant, mutate } from "./fuzz/Mutations.ts"
import * as Requests from "./fuzz/Requests.ts"
import { fingerprint } from "./Stored.ts"

const seeds = SeededRandom.parseSeeds(process.env["TEST_SEEDS"] ?? "3")
const validPerEndpoint = 4
/** Of a request with a body, and of one that has less that can be changed. */
const mutantsPerValid = 10
const mutantsWithoutBody = 3
const atOnce = 8

/** Refusals of a value of the right shape, by the database or the rule of the clock. */
const refusedByHandler = new RegExp([
  "^cursor: expected the `next`",
  "cannot be moved beyond the year 9000",
  "^[$].*: is not known$",
  "^expected JSON of at most 64 levels$",
  "^[$].to: expected a timestamp after from$",
  "^to: expected a date that is not before `from`$",
  "^limit: expected an integer from 1 to 1000$"
].join("|"))

/** The first statement that shows an ended day stores its end. */
const mayStore = ({ method, name }: (typeof endpoints)[number]): boolean =>
  method !== "GET" || name === "GET /v1/statements/{asset}"

/** Counts of answers, by kind of request, status and tag. */
const counts = new Map<string, number>()
const count = (kind: string, { body, status }: Answer) => {
  const key = `${kind} ${status} ${String(body["_tag"] ?? "")}`.trim()
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

layer(TestApi.layer(), { excludeTestServices: true })("requests made from the schemas", (it) => {
  const asNew = Effect.fnUntraced(function*(integratorId: string) {
    const api = yield* TestApi
    const created = yield* (yield* Integrators).create(IntegratorId.make(integratorId))
    const key = Redacted.value(created.apiKey)
    return (...[method, path, sent]: ReturnType<typeof Requests.request>) => api.send(method, path, { key, ...sent })
  })
  type Send = Effect.Success<ReturnType<typeof asNew>>

  /** What is stored, as far as it is known: there is no other writer. */
  let stored: Effect.Success<typeof fingerprint> | undefined

  /**
   * A request that has the shape: whatever else the answer is, it is declared, it is no 400 but for what only the
   * handler can know, and a refusal stores nothing.
   */
  const sendShaped = Effect.fnUntraced(function*(
    send: Send,
    endpoint: Declared,
    mutant: Pick<Mutant, "wire"> & Partial<Mutant>,
    context: string
  ) {
    const before = stored ?? (yield* fingerprint)
    const answer = yield* send(...Requests.request(endpoint, mutant.wire, mutant))
    count(mutant.what === undefined ? "valid" : "shaped mutant", answer)
    assertDeclared(endpoint, answer, context)
    if (answer.status === 400) {
      assert.match(String(answer.body["message"]), refusedByHandler, `${context}: ${JSON.stringify(mutant.wire)}`)
    }
    if (mutant.wrong) assert.isAtLeast(answer.status, 400, `${context} is taken: ${answer.text}`)
    stored = answer.status < 400 && mayStore(endpoint) ? undefined : yield* fingerprint
    if (stored !== undefined) assert.deepStrictEqual(stored, before, `${context}: ${answer.text} stored something`)
  })

  const sendShapeless = Effect.fnUntraced(function*(send: Send, endpoint: Declared, mutant: Mutant, context: string) {
    const answer = yield* send(...Requests.request(endpoint, mutant.wire, mutant))
    count("shapeless mutant", answer)
    if (Object.values(mutant.rawParams ?? {}).includes("")) {
      assert.strictEqual(answer.status, 404, context)
      return assert.strictEqual(answer.body["_tag"], "RouteNotFound", context)
    }
    assert.strictEqual(answer.status, 400, `${context}: ${answer.text}`)
    assertDeclared(endpoint, answer, context)
    assert.strictEqual(answer.body["part"], mutant.part, `${context}: ${answer.text}`)
    const message = String(answer.body["message"])
    assert.isAtMost(message.length, 2_500, context)
    assert.isAtLeast(message.length, 10, context)
    assert.isTrue(message.isWellFormed() && !/\p{Cc}/u.test(message), context)
  })

  it.effect(`are answered as declared, and what is refused stores nothing (seeds ${seeds.join(", ")})`, () =>
    Effect.gen(function*() {
      for (const seed of seeds) {
        const integratorId = `fuzz-${seed}`
        const random = SeededRandom.make(seed)
        const send = yield* asNew(integratorId)
        for (const userId of ["ann", "bob"]) yield* send("PUT", `/v1/users/${userId}`, { json: {} })
        stored = undefined
        for (const endpoint of endpoints) {
          const wires = yield* Requests.valid(endpoint, random, { count: validPerEndpoint, integratorId })
          const shapeless: Array<readonly [Mutant, string]> = []
          for (const wire of wires) {
            const parts = Object.keys(wire.params).length + Requests.queryNames(endpoint).length
            const mutants = wire.body !== undefined ? mutantsPerValid : parts > 0 ? mutantsWithoutBody : 0
            for (let index = 0; index < mutants; index++) {
              const mutant = mutate(random, wire, Requests.queryNames(endpoint))
              const context = `seed ${seed}, ${endpoint.name}, ${mutant.what}`
              if (Requests.hasShape(endpoint, mutant)) yield* sendShaped(send, endpoint, mutant, context)
              else shapeless.push([mutant, context])
            }
          }
          const before = yield* fingerprint
          yield* Effect.forEach(
            shapeless,
            ([mutant, context]) => sendShapeless(send, endpoint, mutant, context),
            { concurrency: atOnce }
          )
          assert.deepStrictEqual(yield* fingerprint, before, `seed ${seed}, ${endpoint.name} stored what it refused`)
          for (const wire of wires) yield* sendShaped(send, endpoint, { wire }, `seed ${seed}, ${endpoint.name}`)
        }
      }
      if (process.env["TEST_SEEDS"] !== undefined) yield* Console.log(Object.fromEntries([...counts].toSorted()))
      const total = [...counts.values()].reduce((sum, one) => sum + one, 0)
      assert.isAbove(total, seeds.length * endpoints.length * validPerEndpoint)
      for (const kind of ["valid 20", "shaped mutant 20", "shapeless mutant 400", "shapeless mutant 404"]) {
        assert.isTrue([...counts.keys()].some((key) => key.startsWith(kind)), `no ${kind} was received`)
      }
    }), 60_000 * Math.max(5, seeds.length))
})
