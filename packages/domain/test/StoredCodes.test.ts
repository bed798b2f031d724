import { Explanation } from "@card-rewards/domain/Explanation"
import { QuoteRequest } from "@card-rewards/domain/Quote"
import { SpendEvent, WaitingSpendEvent } from "@card-rewards/domain/SpendEvent"
import { Enrollment, User } from "@card-rewards/domain/User"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const at = "2026-01-01T00:00:00.000Z"

/** A country and a currency that were withdrawn. */
const country = "AN"
const currency = "ANG"

const amount = { currency, amount: "1" }
const event = {
  kind: "clearing",
  integratorId: "acme",
  userId: "ann",
  externalTransactionId: "t1",
  amount,
  merchant: { descriptor: "Shop", mcc: "5411", country },
  occurredAt: at
}
const waitingFor = { kind: "authorization", externalTransactionId: "a1" }

describe("a code that was withdrawn after it was stored", () => {
  it("is in responses, for the service and its clients", () => {
    const responses: ReadonlyArray<readonly [Schema.Codec<unknown, unknown>, object]> = [
      [User, { userId: "ann", country, enrolledAt: at, updatedAt: at }],
      [WaitingSpendEvent, { id: "se", receivedAt: at, waitingFor, event }],
      [Explanation.fields.attributes, { country }]
    ]
    for (const [schema, body] of responses) {
      const decoded = Schema.decodeUnknownSync(schema)(body)
      assert.deepStrictEqual(Schema.encodeUnknownSync(schema)(decoded), body)
    }
  })

  it("is in no request", () => {
    const isEvent = Schema.is(Schema.toEncoded(SpendEvent))
    const merchantNow = { ...event.merchant, country: "DE" }
    assert.isTrue(isEvent({ ...event, amount: { ...amount, currency: "USD" }, merchant: merchantNow }))
    assert.isFalse(isEvent({ ...event, merchant: { ...event.merchant, country: "DE" } }))
    assert.isFalse(isEvent({ ...event, amount: { ...amount, currency: "USD" } }))
    assert.isFalse(Schema.is(Schema.toEncoded(Enrollment))({ country }))
    const { merchant } = event
    assert.isFalse(Schema.is(Schema.toEncoded(QuoteRequest))({ amount: { ...amount, currency: "USD" }, merchant }))
  })
})
