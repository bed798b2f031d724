import { apiKeyForm, hasSecret, maskSecrets, oneLine } from "@card-rewards/domain/ApiKey"
import { secretFromBytes } from "@card-rewards/domain/WebhookSignature"
import { assert, describe, it } from "@effect/vitest"

const digits = "0a".repeat(32)
const signingSecret = secretFromBytes(new Uint8Array(32))

describe("API keys and signing secrets", () => {
  it("are recognised as keys in their whole form alone", () => {
    assert.strictEqual(apiKeyForm.exec(`service_sk_sandbox_${digits}`)?.[1], "sandbox")
    assert.strictEqual(apiKeyForm.exec(`service_sk_live_${digits}`)?.[1], "live")
    const malformed = [
      `service_sk_${digits}`,
      `service_sk_test_${digits}`,
      `service_sk_live_${digits.slice(1)}`,
      `service_sk_live_${digits}0`,
      `service_sk_live_${digits.toUpperCase()}`,
      ` service_sk_live_${digits}`,
      `service_sk_live_${digits}\n`,
      signingSecret
    ]
    for (const text of malformed) assert.notMatch(text, apiKeyForm)
  })

  it("are masked in any text, also where they are not well-formed", () => {
    const masks: ReadonlyArray<readonly [text: string, masked: string]> = [
      [`service_sk_sandbox_${digits}`, "service_sk_sandbox_…"],
      [`service_sk_live_${digits}`, "service_sk_live_…"],
      [signingSecret, "service_whsec_…"],
      ["service_sk_xyz", "service_sk_…"],
      ["service_sk_sandbox", "service_sk_…"],
      ["service_sk_sandbox_", "service_sk_…"],
      ["service_sk_live_a'b,c;d)e", "service_sk_live_…"],
      ["name \"service_sk_live_abc\": unknown", "name \"service_sk_live_…\": unknown"],
      ["service_sk_live_abc service_whsec_def", "service_sk_live_… service_whsec_…"],
      ["https://host/?key=service_sk_live_abc&more", "https://host/?key=service_sk_live_…"]
    ]
    for (const [text, masked] of masks) {
      assert.isTrue(hasSecret(text), text)
      assert.strictEqual(maskSecrets(text), masked)
    }
  })

  it("are not found where there are none", () => {
    for (const text of ["", "service_sk", "an API key is missing"]) {
      assert.isFalse(hasSecret(text), text)
      assert.strictEqual(maskSecrets(text), text)
    }
  })
  it("are masked in a text that is made one line, without control characters", () => {
    assert.strictEqual(oneLine(" a\r\n b\u001b[31m\tservice_sk_live_abc\nc "), "a b [31m service_sk_live_… c")
  })
})
