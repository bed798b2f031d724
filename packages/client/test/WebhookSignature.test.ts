import {
  SignatureRefused,
  UnknownEvent,
  verifyWebhook,
  verifyWebhookAs,
  WebhookUnreadable
} from "@card-rewards/client/WebhookSignature"
import { secretFromBytes, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { createHmac } from "node:crypto"
import { Webhook } from "standardwebhooks"
import Stripe from "stripe"
import { sign } from "./Sign.ts"

const stripe = new Stripe("sk_test_unused")
const secretOf = (byte: number) => secretFromBytes(new Uint8Array(32).fill(byte))
const [first, second, third, stranger] = [secretOf(1), secretOf(2), secretOf(3), secretOf(9)]

const event = {
  id: "evt_0001",
  kind: "webhook.ping",
  integratorId: "acme",
  createdAt: "2026-11-21T00:00:00.000Z",
  data: {}
} as const
const body = JSON.stringify(event)
/** TestClock starts at 0; tests run at this time. */
const nowSeconds = 1_800_000_000

interface SignOptions {
  readonly secrets?: readonly [WebhookSecret, ...ReadonlyArray<WebhookSecret>]
  readonly body?: string
  readonly at?: number
}

const signed = (options: SignOptions = {}) => ({
  ...sign({
    secrets: options.secrets ?? [first],
    eventId: event.id,
    body: options.body ?? body,
    timestampSeconds: options.at ?? nowSeconds,
    attempt: 1
  })
})

const atNow = TestClock.setTime(nowSeconds * 1000)

/** The error with which a delivery is refused. */
const refusal = (delivery: Parameters<typeof verifyWebhook>[0]) => Effect.flip(verifyWebhook(delivery))

const expectRefused = (delivery: Parameters<typeof verifyWebhook>[0], reason: SignatureRefused["reason"]) =>
  Effect.map(refusal(delivery), (error) => {
    assert.instanceOf(error, SignatureRefused)
    if (error instanceof SignatureRefused) assert.strictEqual(error.reason, reason)
  })

const anyText = Arbitrary.schema(Schema.String)
const anySecret = Arbitrary.schema(WebhookSecret)

describe("the headers", () => {
  it.effect("are exactly those of the decisions, section 7", () =>
    Effect.gen(function*() {
      const headers = signed({ secrets: [second, first] })
      const hex = (secret: string) => createHmac("sha256", secret).update(`${nowSeconds}.${body}`).digest("hex")
      const base64 = (secret: string) =>
        createHmac("sha256", Buffer.from(secret.slice("service_whsec_".length), "base64"))
          .update(`${event.id}.${nowSeconds}.${body}`).digest("base64")
      assert.deepStrictEqual(headers, {
        "x-service-signature": `t=${nowSeconds},v1=${hex(second)},v1=${hex(first)}`,
        "x-service-event-id": event.id,
        "x-service-attempt": "1",
        "webhook-id": event.id,
        "webhook-timestamp": String(nowSeconds),
        "webhook-signature": `v1,${base64(second)} v1,${base64(first)}`
      })
    }))

  it("a secret is service_whsec_ and 64 lowercase hex digits", () => {
    assert.strictEqual(secretOf(0xab), `service_whsec_${"ab".repeat(32)}`)
    assert.throws(() => secretFromBytes(new Uint8Array(31)))
    const wrongs = ["", "whsec_" + "ab".repeat(32), `service_whsec_${"AB".repeat(32)}`, `${secretOf(1)}\n`]
    for (const wrong of [...wrongs, `${secretOf(1)}0`]) {
      assert.isFalse(Schema.is(WebhookSecret)(wrong))
    }
  })
})

describe("third-party verifiers, unmodified", () => {
  it.effect("stripe accepts each delivery with each valid secret, and nothing else", () =>
    Effect.gen(function*() {
      const header = signed({ secrets: [third, second, first] })["x-service-signature"]
      const receivedAt = nowSeconds * 1000
      const verify = (text: string, secret: string, at = receivedAt): unknown =>
        stripe.webhooks.constructEvent(text, header, secret, 300, undefined, at)
      for (const secret of [first, second, third]) assert.deepStrictEqual(verify(body, secret), event)
      assert.throws(() => verify(body, stranger), /No signatures found/)
      assert.throws(() => verify(`${body} `, first), /No signatures found/)
      assert.throws(() => verify(body, first, receivedAt + 301_000), /Timestamp outside/)
    }))

  it.live("standardwebhooks accepts each delivery with each valid secret, and nothing else", () =>
    Effect.gen(function*() {
      // it reads the machine's clock only
      const at = Math.floor(Date.now() / 1000)
      const headers = signed({ secrets: [third, second, first], at })
      const webhook = (secret: string) => new Webhook(secret.replace(/^service_/, ""))
      for (const secret of [first, second, third]) assert.deepStrictEqual(webhook(secret).verify(body, headers), event)
      assert.throws(() => webhook(stranger).verify(body, headers), /No matching signature/)
      assert.throws(() => webhook(first).verify(`${body} `, headers), /No matching signature/)
      const renamed = { ...headers, "webhook-id": "evt_other" }
      assert.throws(() => webhook(first).verify(body, renamed), /No matching signature/)
      const old = signed({ at: at - 302 })
      assert.throws(() => webhook(first).verify(body, old), /too old/)
    }))

  it.live.prop("both accept any body and any secret", [anyText, anySecret], ([text, secret]) =>
    Effect.gen(function*() {
      const at = Math.floor(Date.now() / 1000)
      const json = JSON.stringify({ text })
      const headers = signed({ secrets: [secret], body: json, at })
      stripe.webhooks.constructEvent(json, headers["x-service-signature"], secret)
      new Webhook(secret.replace(/^service_/, "")).verify(json, headers)
    }), { arbitrary: { runs: 300 } })
})

describe("verifyWebhook", () => {
  it.effect("returns the typed event, from text or bytes, with headers of any type", () =>
    Effect.gen(function*() {
      yield* atNow
      const headers = signed()
      const bytes = new TextEncoder().encode(body)
      for (
        const delivery of [
          { body, headers },
          { body: bytes, headers },
          { body: bytes, headers: new Headers(headers) },
          { body, headers: { "X-Service-Signature": headers["x-service-signature"], accept: ["a", "b"] } },
          { body, headers: { "x-service-signature": [headers["x-service-signature"]], cookie: undefined } }
        ]
      ) {
        const read = yield* verifyWebhook({ ...delivery, secrets: [first] })
        assert.strictEqual(read.kind, "webhook.ping")
        assert.strictEqual(read.id, event.id)
      }
    }))

  it.effect("one common secret is enough, during a rotation on either side", () =>
    Effect.gen(function*() {
      yield* atNow
      const headers = signed({ secrets: [third, second] })
      yield* verifyWebhook({ body, headers, secrets: [second] })
      yield* verifyWebhook({ body, headers, secrets: [third, second] })
      yield* verifyWebhook({ body, headers, secrets: [stranger, first, third] })
      yield* expectRefused({ body, headers, secrets: [first] }, "NoMatchingSignature")
      yield* expectRefused({ body, headers, secrets: [] }, "NoMatchingSignature")
    }))

  it.effect("the timestamp may be toleranceSeconds away, inclusive, before or after", () =>
    Effect.gen(function*() {
      yield* atNow
      const at = (seconds: number) => ({ body, headers: signed({ at: seconds }), secrets: [first] })
      yield* verifyWebhook(at(nowSeconds - 300))
      yield* verifyWebhook(at(nowSeconds + 300))
      yield* expectRefused(at(nowSeconds - 301), "TimestampTooOld")
      yield* expectRefused(at(nowSeconds + 301), "TimestampTooNew")
      yield* expectRefused({ ...at(nowSeconds - 1), toleranceSeconds: 0 }, "TimestampTooOld")
      yield* expectRefused({ ...at(nowSeconds), toleranceSeconds: Number.NaN }, "TimestampTooOld")
      yield* verifyWebhook({ ...at(nowSeconds - 3600), toleranceSeconds: 3600 })
    }))

  it.effect("a changed timestamp does not verify", () =>
    Effect.gen(function*() {
      yield* atNow
      const old = signed({ at: nowSeconds - 1000 })["x-service-signature"]
      const renewed = old.replace(/^t=\d+/, `t=${nowSeconds}`)
      const headers = { "x-service-signature": renewed }
      yield* expectRefused({ body, headers, secrets: [first] }, "NoMatchingSignature")
    }))

  it.effect("other bytes than the signed ones do not verify, even if they decode to the same text", () =>
    Effect.gen(function*() {
      yield* atNow
      const text = JSON.stringify({ ...event, integratorId: "\ufffd" })
      const headers = signed({ body: text })
      const invalid = Buffer.from(text.replace("\ufffd", "\u00ff"), "latin1")
      assert.strictEqual(new TextDecoder().decode(invalid), text)
      yield* expectRefused({ body: invalid, headers, secrets: [first] }, "NoMatchingSignature")
    }))

  it.effect("malformed signatures are refused, other schemes are skipped", () =>
    Effect.gen(function*() {
      yield* atNow
      const header = signed()["x-service-signature"]
      const v1 = header.split(",")[1] ?? ""
      const malformed = [
        "", "t", "t=", "v1=", v1, `t=${nowSeconds}`, `t=${nowSeconds},v1=`, `t=${nowSeconds},v1=00`, `t=-1,${v1}`,
        `t=1e9,${v1}`, `t=0${nowSeconds},${v1}`, `t=${nowSeconds}.0,${v1}`, `t=NaN,${v1}`,
        `t=${nowSeconds},t=${nowSeconds},${v1}`, `t=${nowSeconds}, ${v1}`, `t=${nowSeconds},${v1.toUpperCase()}`,
        `t=${nowSeconds},${v1.replace("v1", "v0")}`, `t=${nowSeconds},${`${v1},`.repeat(33)}`,
        `${header},${"x".repeat(5000)}`
      ]
      for (const signature of malformed) {
        const headers = { "x-service-signature": signature }
        yield* expectRefused({ body, headers, secrets: [first] }, "MalformedHeader")
      }
      const headers = { "x-service-signature": `v0=abc,${header},v2=zzz,v1=short` }
      yield* verifyWebhook({ body, headers, secrets: [first] })
    }))

  it.effect("a missing or repeated header and a malformed secret have other errors than a forgery", () =>
    Effect.gen(function*() {
      yield* atNow
      const header = signed()["x-service-signature"]
      const cases = [
        [{}, [first], "MissingSignature"],
        [new Headers(), [first], "MissingSignature"],
        [{ "x-service-signature": undefined }, [first], "MissingSignature"],
        [{ "x-service-signature": [header, header] }, [first], "RepeatedSignature"],
        [{ "x-service-signature": header, "X-Service-Signature": header }, [first], "RepeatedSignature"],
        [{ "x-service-signature": header }, [first.slice("service_".length)], "MalformedSecret"],
        [{ "x-service-signature": header }, [first, ""], "MalformedSecret"]
      ] as const
      for (const [headers, secrets, reason] of cases) {
        const error = yield* refusal({ body, headers, secrets })
        assert.instanceOf(error, WebhookUnreadable)
        if (error instanceof WebhookUnreadable) assert.strictEqual(error.reason, reason)
        assert.notInclude(JSON.stringify(error), first.slice(-64))
      }
    }))

  it.effect("a body that a framework has parsed is named as the reason", () =>
    Effect.gen(function*() {
      const parsed = JSON.parse("{}")
      const error = yield* refusal({ body: parsed, headers: signed(), secrets: [first] })
      assert.deepInclude(error, { _tag: "WebhookUnreadable", reason: "ParsedBody" })
    }))

  it.effect("a signed body that is not a known event fails with UnknownEvent; another schema may decode it", () =>
    Effect.gen(function*() {
      yield* atNow
      for (const text of ["", "{", "null", "{}", JSON.stringify({ ...event, kind: "reward.invented" })]) {
        const headers = signed({ body: text })
        assert.instanceOf(yield* refusal({ body: text, headers, secrets: [first] }), UnknownEvent)
      }
      const text = JSON.stringify({ answer: 42 })
      const read = verifyWebhookAs(Schema.Struct({ answer: Schema.Int }))
      const headers = signed({ body: text })
      assert.deepStrictEqual(yield* read({ body: text, headers, secrets: [first] }), { answer: 42 })
    }))

  const position = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 })))

  it.effect.prop(
    "a signed body verifies with exactly the secrets that signed it",
    [anyText, anySecret, anySecret, anySecret],
    ([value, a, b, c]) =>
      Effect.gen(function*() {
        yield* atNow
        const content = JSON.stringify(value)
        const headers = signed({ secrets: [a, b], body: content })
        const read = verifyWebhookAs(Schema.String)
        assert.strictEqual(yield* read({ body: content, headers, secrets: [a] }), value)
        assert.strictEqual(yield* read({ body: new TextEncoder().encode(content), headers, secrets: [c, b] }), value)
        if (c !== a && c !== b) yield* expectRefused({ body: content, headers, secrets: [c] }, "NoMatchingSignature")
      }),
    { arbitrary: { runs: 300 } }
  )

  it.effect.prop("a changed bit of the body or of the tag does not verify", [anyText, position], ([value, at]) =>
    Effect.gen(function*() {
      yield* atNow
      const content = JSON.stringify({ value })
      const headers = signed({ body: content })
      const bytes = new TextEncoder().encode(content)
      const index = at % bytes.length
      bytes[index] = (bytes[index] ?? 0) ^ (1 << (at % 8))
      yield* expectRefused({ body: bytes, headers, secrets: [first] }, "NoMatchingSignature")
      const header = headers["x-service-signature"]
      const offset = header.length - 1 - (at % 64)
      const digit = (parseInt(header.charAt(offset), 16) ^ (1 << (at % 4))).toString(16)
      const forged = { "x-service-signature": header.slice(0, offset) + digit + header.slice(offset + 1) }
      yield* expectRefused({ body: content, headers: forged, secrets: [first] }, "NoMatchingSignature")
    }), { arbitrary: { runs: 300 } })
})
