import { processAll } from "@card-rewards/testing/EventProcessing"
import { clearing, definition, moveMoney } from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"

const timestamp = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/
const emoji = "😀".repeat(128)

layer(TestApi.withProcessing(), { excludeTestServices: true })("values on the wire", (it) => {
  it.effect("two spellings of one value are the same content, and one of them is ever printed", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("spelling")
      yield* send("PUT", "/v1/users/ann", {})
      const event = { integratorId: "spelling", kind: "refund", originalTransactionId: "none" }
      const spelled = [
        ["0100", "2026-01-01T00:00:00Z"],
        ["100", "2026-01-01T00:00:00.000Z"],
        ["000000000000000100", "2026-01-01T00:00:00.0Z"]
      ] as const
      for (const [index, [amount, occurredAt]] of spelled.entries()) {
        const answer = yield* send(
          "POST",
          "/v1/spend-events",
          clearing({ ...event, amount: { currency: "USD", amount }, occurredAt })
        )
        assert.deepStrictEqual(answer.body, { id: "se:spelling:ann:refund:t1", duplicate: index > 0 })
      }
      yield* processAll
      const waiting = yield* send("GET", "/v1/spend-events?state=waiting")
      assert.include(waiting.text, `"occurredAt":"2026-01-01T00:00:00.000Z"`)
      assert.include(waiting.text, `"amount":"100"`)
      assert.strictEqual((yield* send(...moveMoney("deposits", "d", "007"))).body["duplicate"], false)
      assert.strictEqual((yield* send(...moveMoney("deposits", "d", "7"))).body["duplicate"], true)
      assert.deepStrictEqual((yield* send("GET", "/v1/sandbox/vault")).body, {
        vaultId: "sandbox",
        balances: [{ asset: "USDC", held: "7", free: "7" }, { asset: "EURe", held: "0", free: "0" }]
      })
      const version = (changes: Readonly<Record<string, unknown>>) => send(
        "PUT",
        "/v1/programs/p/versions/1",
        definition(changes)
      )
      const first = yield* version({
        effectiveFrom: "2099-12-01T00:00:00Z",
        caps: { perMonth: "0050", categories: [] }
      })
      assert.strictEqual(first.body["effectiveFrom"], "2099-12-01T00:00:00.000Z")
      assert.match(String(first.body["publishedAt"]), timestamp)
      const again = yield* version({
        effectiveFrom: "2099-12-01T00:00:00.00Z",
        caps: { categories: [], perMonth: "50" }
      })
      assert.deepStrictEqual(again.body, { ...first.body, duplicate: true })
      const program = yield* send("GET", "/v1/programs/p")
      assert.include(program.text, `"perMonth":"50"`)
      assert.include(program.text, `"effectiveFrom":"2099-12-01T00:00:00.000Z"`)
      const { body } = yield* send("PUT", "/v1/sandbox/clock", { now: "2090-01-01T00:00:00Z" })
      assert.deepStrictEqual(body, { now: "2090-01-01T00:00:00.000Z" })
    }))

  it.effect("the longest values of section 8 are taken, in code points, and come back as they were", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("longest")
      const path = encodeURIComponent(emoji)
      const put = yield* send("PUT", `/v1/users/${path}`, { tier: emoji, segment: emoji, country: "DE" })
      assert.deepInclude(put.body["user"], { userId: emoji, tier: emoji, segment: emoji, country: "DE" })
      const event = clearing({
        integratorId: "longest",
        userId: emoji,
        externalTransactionId: emoji,
        authorizationId: emoji,
        amount: { currency: "EUR", amount: "9".repeat(18) },
        merchant: { descriptor: "😀".repeat(200), mcc: "0000", mid: "😀".repeat(64), country: "ZW" }
      })
      const accepted = yield* send("POST", "/v1/spend-events", event)
      assert.deepStrictEqual(accepted.body, { id: `se:longest:${emoji}:clearing:${emoji}`, duplicate: false })
      assert.strictEqual((yield* send("POST", "/v1/api-keys", { name: emoji })).status, 201)
      assert.strictEqual((yield* send("DELETE", `/v1/api-keys/${path}`)).status, 200)
      const url = `https://hooks.example.com/${"u".repeat(2_048 - 26)}`
      const endpoint = yield* send("POST", "/v1/webhook-endpoints", { id: emoji, url })
      assert.deepInclude(endpoint.body["endpoint"], { id: emoji, url })
      assert.strictEqual((yield* send("GET", `/v1/webhook-endpoints/${path}`)).status, 200)
      const published = yield* send("PUT", `/v1/programs/${path}/versions/2147483647`, definition())
      assert.deepInclude(published.body, { programId: emoji, version: 2_147_483_647 })
      const recorded = yield* send(...moveMoney("deposits", emoji, "9".repeat(78)))
      assert.deepStrictEqual(recorded.body, { reference: emoji, vaultId: "sandbox", duplicate: false })
      assert.include((yield* send("GET", "/v1/sandbox/vault")).text, `"held":"${"9".repeat(78)}"`)
    }))

  it.effect("the key of an event is the tuple, not the printed id", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("tuple")
      const pairs = [["a:clearing:b", "c"], ["a", "b:clearing:c"]] as const
      for (const [userId, externalTransactionId] of pairs) {
        yield* send("PUT", `/v1/users/${encodeURIComponent(userId)}`, {})
        const answer = yield* send(
          "POST",
          "/v1/spend-events",
          clearing({ integratorId: "tuple", userId, externalTransactionId })
        )
        assert.deepStrictEqual(answer.body, { id: "se:tuple:a:clearing:b:clearing:c", duplicate: false })
      }
    }))

  it.effect("occurredAt may be up to a minute ahead of the integrator's clock", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("ahead")
      yield* send("PUT", "/v1/users/ann", {})
      const post = (aheadMillis: number) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          send("POST", "/v1/spend-events", clearing({
            integratorId: "ahead",
            externalTransactionId: `${aheadMillis}`,
            occurredAt: new Date(now + aheadMillis).toISOString()
          })))
      assert.strictEqual((yield* post(59_900)).status, 202)
      assert.strictEqual((yield* post(90_000)).body["_tag"], "EventInFuture")
      yield* send("PUT", "/v1/sandbox/clock", { now: "2080-01-01T00:00:00Z" })
      assert.strictEqual((yield* post(90_000)).status, 202)
    }))

  it.effect("a user, a balance and a reward have just the fields of the contract", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("fields")
      yield* send("PUT", "/v1/users/bob", {})
      const put = yield* send("PUT", "/v1/users/ann", { tier: "gold", referredBy: "bob" })
      const user = { userId: "ann", tier: "gold", referredBy: "bob" }
      const { enrolledAt, updatedAt } = JSON.parse(JSON.stringify(put.body["user"]))
      assert.match(enrolledAt, timestamp)
      assert.deepStrictEqual(put.body, { user: { ...user, enrolledAt, updatedAt }, outcome: "enrolled" })
      assert.deepStrictEqual((yield* send("GET", "/v1/users/ann")).body, { user: { ...user, enrolledAt, updatedAt } })
      // attributes that are left out are cleared, referredBy is kept, and left out or repeated changes nothing
      const cleared = yield* send("PUT", "/v1/users/ann", {})
      assert.strictEqual(cleared.body["outcome"], "updated")
      assert.deepInclude(cleared.body["user"], { userId: "ann", referredBy: "bob", enrolledAt })
      assert.notProperty(cleared.body["user"], "tier")
      assert.strictEqual((yield* send("PUT", "/v1/users/ann", { referredBy: "bob" })).body["outcome"], "unchanged")

      yield* send("PUT", "/v1/programs/p/versions/3", definition({ categories: [], categoryRates: [] }))
      yield* send("PUT", "/v1/sandbox/clock", { now: "2100-01-01T00:00:00.000Z" })
      const occurredAt = "2099-12-20T00:00:00.000Z"
      yield* send("POST", "/v1/spend-events", clearing({ integratorId: "fields", occurredAt }))
      yield* processAll
      const nothing = { expected: "0", pending: "0", claimable: "0", paid: "0", owed: "0", awaitingFunding: "0" }
      assert.deepStrictEqual((yield* send("GET", "/v1/users/ann/balance")).body, {
        userId: "ann",
        balances: [{ asset: "USDC", ...nothing, awaitingFunding: "1234500" }, { asset: "EURe", ...nothing }]
      })
      const rewards = (yield* send("GET", "/v1/users/ann/rewards")).body
      const [{ createdAt = "", updatedAt: changedAt = "" } = {}] = JSON.parse(JSON.stringify(rewards["rewards"]))
      assert.match(createdAt, timestamp)
      assert.strictEqual(changedAt, createdAt)
      assert.deepStrictEqual(rewards, {
        rewards: [{
          id: "rw:fields:ann:clearing:t1:p",
          userId: "ann",
          programId: "p",
          programVersion: 3,
          transaction: { kind: "clearing", externalTransactionId: "t1" },
          state: "AwaitingFunding",
          amount: { asset: "USDC", amount: "1234500" },
          spend: { currency: "USD", amount: "12345" },
          claimableAt: "2100-01-03T00:00:00.000Z",
          createdAt,
          updatedAt: createdAt,
          revision: 1,
          earned: "1234500",
          paid: "0",
          recovered: "0",
          clawedBack: "0",
          refundedSpend: "0"
        }]
      })
    }))
})
