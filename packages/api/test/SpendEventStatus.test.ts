import { processAll } from "@card-rewards/testing/EventProcessing"
import { clearing, enroll, publish, setClock } from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"

const options = { excludeTestServices: true } as const
const occurredAt = "2099-12-10T00:00:00.000Z"

const published = [
  publish("a-later", 1, { effectiveFrom: "2099-12-20T00:00:00.000Z" }),
  publish("b-excluded", 1, { exclusions: { mccs: ["5411"], merchants: [] } }),
  publish("c-tiny", 7, { categoryRates: [], baseRate: 1 }),
  publish("d-earns", 1),
  publish("e-capped", 1, { caps: { perMonth: "1000", categories: [] } }),
  publish("f-category", 1, {
    caps: { perMonth: "50000000", categories: [{ categoryId: "groceries", perMonth: "0" }] }
  }),
  publish("g-zero", 1, { categoryRates: [], baseRate: 0 }),
  publish("h-eligible", 1, { eligibility: { countries: ["DE"] } }),
  publish("i-euro", 1, { asset: "EURe" })
]

layer(TestApi.withProcessing(), options)("a spend event that is read", (it) => {
  it.effect("has its contents, its state, and what it earned in each program or why not", () =>
    Effect.gen(function*() {
      const { integratorId, send } = yield* newIntegrator("reader")
      for (const request of [enroll("ann"), ...published, setClock("2099-12-15T00:00:00.000Z")]) {
        assert.strictEqual((yield* send(...request)).status, 200)
      }
      const own = (changes: object) => clearing({ integratorId, occurredAt, ...changes })
      const read = (kind: string, id: string) =>
        Effect.map(send("GET", `/v1/users/ann/spend-events/${kind}/${id}`), ({ body }) => {
          const { receivedAt, ...status } = body["spendEvent"] as Readonly<Record<string, unknown>>
          assert.match(String(receivedAt), /^2099-12-15T/)
          return status
        })
      const post = (event: object) => send("POST", "/v1/spend-events", event)
      const merchant = { descriptor: "S", mcc: "5411", mid: "m" }
      const tiny = own({ amount: { currency: "USD", amount: "0001" }, merchant })
      yield* post(tiny)
      const shown = { ...tiny, amount: { currency: "USD", amount: "1" } }
      const id = "se:reader:ann:clearing:t1"
      assert.deepStrictEqual(yield* read("clearing", "t1"), { id, state: "stored", event: shown })
      yield* processAll
      const rewardIn = (programId: string, transaction = "t1") => `rw:reader:ann:clearing:${transaction}:${programId}`
      assert.deepStrictEqual(yield* read("clearing", "t1"), {
        id,
        state: "applied",
        event: shown,
        outcomes: [
          { programId: "a-later", reason: "noVersionInForce" },
          { programId: "b-excluded", programVersion: 1, reason: "excludedMcc" },
          { programId: "c-tiny", programVersion: 7, rewardId: rewardIn("c-tiny"), amount: "1" },
          { programId: "d-earns", programVersion: 1, rewardId: rewardIn("d-earns"), amount: "300" },
          { programId: "e-capped", programVersion: 1, rewardId: rewardIn("e-capped"), amount: "300" },
          { programId: "f-category", programVersion: 1, reason: "categoryCap" },
          { programId: "g-zero", programVersion: 1, reason: "zeroRate" },
          { programId: "h-eligible", programVersion: 1, reason: "notEligible" }
        ]
      })
      const others = [
        own({ externalTransactionId: "t2", amount: { currency: "USD", amount: "100" } }),
        own({ externalTransactionId: "t3" }),
        own({ externalTransactionId: "t4", amount: { currency: "GBP", amount: "100" } }),
        own({ externalTransactionId: "t5", amount: { currency: "USD", amount: "0" } }),
        own({ kind: "refund", externalTransactionId: "r1", originalTransactionId: "t1" }),
        own({ kind: "refund", externalTransactionId: "r2", originalTransactionId: "none" })
      ]
      for (const event of others) yield* post(event)
      yield* processAll
      const reasonIn = Effect.fnUntraced(function*(transaction: string, programId: string) {
        const { outcomes } = yield* read("clearing", transaction)
        const all = outcomes as ReadonlyArray<{ readonly programId: string; readonly reason?: string }>
        return all.find((one) => one.programId === programId)?.reason
      })
      assert.isUndefined(yield* reasonIn("t2", "e-capped"))
      assert.strictEqual(yield* reasonIn("t3", "e-capped"), "monthCap")
      assert.deepInclude(yield* read("clearing", "t4"), { outcomes: [], reason: "currencyEarnsNothing" })
      assert.deepInclude(yield* read("clearing", "t5"), { outcomes: [], reason: "zeroAmount" })
      const refunded = yield* read("refund", "r1")
      assert.deepStrictEqual([refunded["state"], refunded["outcomes"]], ["applied", undefined])
      const waiting = yield* read("refund", "r2")
      assert.deepInclude(waiting, { state: "waiting", waitingFor: { kind: "clearing", externalTransactionId: "none" } })
      assert.strictEqual(JSON.stringify(yield* read("clearing", "t1")).includes(`"amount":"300"`), true, "as decided")
      const none = yield* send("GET", "/v1/users/ann/spend-events/refund/t1")
      assert.deepInclude(none.body, { _tag: "NotFound", resource: "spend_event", id: "t1" })
      assert.strictEqual((yield* send("GET", "/v1/users/ann/spend-events/purchase/t1")).status, 400)
    }))
})
