import { assert, describe, it } from "vitest"
import { bodyOf } from "../src/peers/EventWork.ts"
import { RewardOrder } from "../src/peers/receiver/RewardOrder.ts"

const body = (reward: string, revision: number): string =>
  bodyOf(
    `evt_${reward}_${revision}`,
    { integratorId: "acme", userId: "anna", externalTransactionId: reward },
    { cents: "1", earned: "1", occurredAt: "2026-01-01T00:00:00.000Z" }
  ).replace("\"revision\":1", `"revision":${revision}`)

/** What a receiver finds of webhooks of `reward-revision`; those that begin with `!` are refused. */
const find = (...webhooks: ReadonlyArray<string>) => {
  const order = new RewardOrder()
  for (const webhook of webhooks) {
    const [reward = "", revision] = webhook.replace("!", "").split("-")
    order.add(body(reward, Number(revision)), !webhook.startsWith("!"))
  }
  return { outOfOrder: order.outOfOrder, repeated: order.repeated }
}

describe("the order at the receiver", () => {
  it("accepts revisions in order, of several rewards and after refusals", () => {
    assert.deepStrictEqual(find("!a-1", "b-1", "a-1", "b-2", "!a-2", "a-2"), { outOfOrder: 0, repeated: 0 })
  })

  it("counts a revision that comes before the one before it was accepted", () => {
    assert.deepStrictEqual(find("a-2", "a-1"), { outOfOrder: 1, repeated: 0 })
    assert.deepStrictEqual(find("!a-1", "a-2"), { outOfOrder: 1, repeated: 0 })
  })

  it("counts a repeat, which is not out of order", () => {
    assert.deepStrictEqual(find("a-1", "a-2", "a-1"), { outOfOrder: 0, repeated: 1 })
  })
})
