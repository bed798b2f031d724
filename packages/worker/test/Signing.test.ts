import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { hmac } from "@card-rewards/worker/WebhookDispatcher/Signing"
import { assert, describe, it } from "@effect/vitest"
import { createHmac } from "node:crypto"

/** Characters of one to four bytes, and an unpaired surrogate, which is encoded as U+FFFD. */
const characters = ["a", "\0", "ü", "€", "😀", "\ud800"]

describe("hmac", () => {
  it("equals HMAC-SHA256 for keys, texts and bytes of any length, in any order", () => {
    const random = SeededRandom.make(1)
    const expected = (key: Uint8Array, start: string, body: string | Uint8Array, encoding: "hex" | "base64") =>
      createHmac("sha256", key).update(start).update(body).digest(encoding)
    const keys = [1, 48, 63, 64, 65, 78, 200].map((length) =>
      Uint8Array.from({ length }, () => random.below(256)))
    const signers = keys.map((key) => ({ key, sign: hmac(key) }))
    const lengths = [0, 1, 700, 16_383, 16_384, 16_385, 100_000]
    for (let count = 0; count < 500; count++) {
      const { key, sign } = random.pick(signers)
      const encoding = random.pick(["hex", "base64"] as const)
      const text = random.pick(characters).repeat(random.chance(0.1) ? random.pick(lengths) : random.below(1_500))
      const start = random.pick(["", "1700000000.", "a".repeat(300)])
      const body = random.chance(0.5) ? text : Buffer.from(text)
      assert.strictEqual(sign(start, body, encoding), expected(key, start, body, encoding))
    }
  })
})
