import { assert, describe, it } from "vitest"
import { makeSigner, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { createHmac } from "node:crypto"
import { bodyOf } from "../src/peers/EventWork.ts"
import { SignedWebhooks } from "../src/peers/receiver/SignedWebhooks.ts"

const secret = WebhookSecret.make(`service_whsec_${"a".repeat(64)}`)
const other = WebhookSecret.make(`service_whsec_${"b".repeat(64)}`)

/** A request as it arrives; `userId` may have characters of several bytes. */
const webhook = (transaction: string, by = secret, userId = "anna") => {
  const key = { integratorId: "acme", userId, externalTransactionId: transaction }
  const body = bodyOf("evt_1", key, { cents: "1", earned: "7", occurredAt: "2026-01-01T00:00:00.000Z" })
  const sign = makeSigner([by], (key) => (start, body, encoding) =>
    createHmac("sha256", key).update(start).update(body).digest(encoding))
  const headers = sign({ eventId: "evt_1", body, timestampSeconds: 1_700_000_000, attempt: 1 })
  const head = `POST /hooks HTTP/1.1\r\n${Object.entries(headers).map((header) => header.join(": ")).join("\r\n")}`
  return { head, body: Buffer.from(body).toString("latin1") }
}

describe("the receiver of signed webhooks", () => {
  it("counts each transaction once, repeats and what was earned", () => {
    const webhooks = new SignedWebhooks({ acme: secret })
    for (const { body, head } of [webhook("a"), webhook("b", secret, "jürgen"), webhook("a")]) {
      assert.isTrue(webhooks.add(head, body))
    }
    assert.deepInclude(webhooks, { refused: 0, repeated: 1, earned: 21 })
    assert.strictEqual(webhooks.distinct, 2)
  })

  it("refuses another secret, a changed body, an unknown integrator and a missing signature", () => {
    const { body, head } = webhook("a")
    const webhooks = new SignedWebhooks({ acme: secret })
    assert.isFalse(webhooks.add(webhook("a", other).head, body))
    assert.isFalse(webhooks.add(head, body.replace("\"earned\":\"7\"", "\"earned\":\"8\"")))
    assert.isFalse(webhooks.add("POST /hooks HTTP/1.1", body))
    assert.isFalse(new SignedWebhooks({ other: secret }).add(head, body))
    assert.deepInclude(webhooks, { refused: 3, repeated: 0, earned: 0 })
    assert.strictEqual(webhooks.distinct, 0)
  })
})
