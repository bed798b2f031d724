/**
 * Signing and verification of webhooks (contract sections 2.8, 3.4 and 5.7; decisions, section 7). Verification
 * requires a `Mac` service: `NodeCrypto.layerMac` on Node, `Mac.layerWebCrypto` elsewhere.
 */
import * as Bytes from "effect/Bytes"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Mac } from "effect/crypto"
import { Base64, Hex } from "effect/encoding"

/** A signing secret, `service_whsec_<64 lowercase hex digits>` (contract section 2.8). */
export const WebhookSecret = Schema.String.check(
  Schema.isPattern(/^service_whsec_[0-9a-f]{64}$/, { expected: "service_whsec_ and 64 hex digits" })
).pipe(Schema.brand("WebhookSecret"))
export type WebhookSecret = typeof WebhookSecret.Type

/** Formats 32 random bytes as a secret. Throws for another number of bytes. */
export const secretFromBytes = (bytes: Uint8Array): WebhookSecret =>
  WebhookSecret.make(`service_whsec_${Hex.encode(bytes)}`)

/** The valid secrets: the current one and up to four replaced ones (contract section 3.4), newest first. */
export type SigningSecrets = readonly [WebhookSecret, ...ReadonlyArray<WebhookSecret>]

/** A delivery attempt. */
export interface Attempt {
  readonly eventId: string
  /** The request body, byte for byte; a text is its UTF-8. */
  readonly body: string | Uint8Array
  /** The time of this attempt, whole seconds since 1970. */
  readonly timestampSeconds: number
  /** 1 for the first attempt. */
  readonly attempt: number
}

/** The headers of one attempt that name and sign its event (decisions, section 7). */
export interface SignedHeaders {
  readonly "x-service-signature": string
  readonly "x-service-event-id": string
  readonly "x-service-attempt": string
  readonly "webhook-id": string
  readonly "webhook-timestamp": string
  readonly "webhook-signature": string
}

/** HMAC-SHA256 with a prepared key: returns the encoded tag of a text in ASCII and the body behind it. */
export type PrepareHmac = (
  key: Uint8Array
) => (start: string, body: Attempt["body"], encoding: "hex" | "base64") => string

/** The headers that sign an attempt. */
export type Signer = (attempt: Attempt) => SignedHeaders

/**
 * Prepares the keys of the secrets once. The returned function signs attempts with each of them, in this order.
 *
 * `x-service-signature` is `t=<seconds>,v1=<hex>,…`, where `v1` is HMAC-SHA256 keyed by the whole secret over
 * `<seconds>.<body>`; the `stripe` package accepts it. The `webhook-*` headers are those of Standard Webhooks, keyed by
 * the secret without `service_`; the `standardwebhooks` package accepts them.
 */
export const makeSigner = (secrets: SigningSecrets, prepare: PrepareHmac): Signer => {
  const keys = secrets.map((secret) => ({
    service: prepare(serviceKey(secret)),
    standard: prepare(standardKey(secret))
  }))
  return ({ attempt, body, eventId, timestampSeconds }) => {
    const seconds = String(timestampSeconds)
    const serviceStart = `${seconds}.`
    const standardStart = `${eventId}.${serviceStart}`
    const tags = keys.map((key) => `,v1=${key.service(serviceStart, body, "hex")}`)
    return {
      "x-service-signature": `t=${seconds}${tags.join("")}`,
      "x-service-event-id": eventId,
      "x-service-attempt": String(attempt),
      "webhook-id": eventId,
      "webhook-timestamp": seconds,
      "webhook-signature": keys.map((key) => `v1,${key.standard(standardStart, body, "base64")}`).join(" ")
    }
  }
}

/** A signature was refused. `NoMatchingSignature`: made with another secret, or over another body. */
export class SignatureRefused extends Schema.TaggedError<SignatureRefused>()("SignatureRefused", {
  reason: Schema.Literals(["MalformedHeader", "NoMatchingSignature", "TimestampTooOld", "TimestampTooNew"]),
  message: Schema.String
}) {}

/** One received webhook and what it is verified with. */
export interface VerifyInput {
  /** The secrets of the receiver; one that matches is enough (contract section 5.7). */
  readonly secrets: ReadonlyArray<WebhookSecret>
  /** The value of `x-service-signature`. */
  readonly signature: string
  /** The body as it arrived, preferably its bytes: text has lost the bytes that are not valid UTF-8. */
  readonly body: string | Uint8Array
  readonly nowSeconds: number
  /** The greatest accepted difference between the timestamp and `nowSeconds`, in either direction. */
  readonly toleranceSeconds: number
}

/**
 * Succeeds if one `v1` of the signature was made with one of the secrets over this body, within the tolerance.
 *
 * Every pair is compared in constant time, so that the duration reveals nothing about a tag. Schemes other than `v1`
 * are skipped, because later versions may add some. The timestamp is checked after the signature.
 */
export const verify = Effect.fnUntraced(function*(
  input: VerifyInput
): Effect.fn.Return<void, SignatureRefused, Mac.Mac> {
  const header = parseSignature(input.signature)
  if (header === undefined) {
    return yield* refused("MalformedHeader", "x-service-signature is not of the form t=<seconds>,v1=<64 hex digits>,…")
  }
  const content = signedContent(header.timestamp, input.body)
  let matches = false
  for (const secret of input.secrets) {
    const key = yield* macKey(serviceKey(secret))
    const expected = yield* Effect.orDie(Mac.Mac.use((mac) => mac.sign(key, content)))
    for (const candidate of header.tags) {
      const same = Mac.timingSafeEqual(expected, candidate)
      matches = same || matches
    }
  }
  if (!matches) {
    return yield* refused("NoMatchingSignature", "no signature was made by a secret held here over this body")
  }
  const ageSeconds = input.nowSeconds - Number(header.timestamp)
  // so that a tolerance that is no number accepts nothing
  if (!(ageSeconds <= input.toleranceSeconds)) {
    return yield* refused("TimestampTooOld", "the delivery was signed too long ago")
  }
  if (!(-ageSeconds <= input.toleranceSeconds)) {
    return yield* refused("TimestampTooNew", "the delivery was signed in the future")
  }
})

const encoder = new TextEncoder()

const refused = (reason: SignatureRefused["reason"], message: string) => new SignatureRefused({ reason, message })

/** Five tags take less than 400 characters; the limits leave room for other schemes. */
const maxSignatureLength = 4096
const maxTags = 32

/** `timestamp` is the text that was signed. */
const parseSignature = (header: string): { timestamp: string; tags: ReadonlyArray<Uint8Array> } | undefined => {
  if (header.length > maxSignatureLength) return undefined
  let timestamp: string | undefined
  const tags: Array<Uint8Array> = []
  for (const item of header.split(",")) {
    if (item.startsWith("t=")) {
      if (timestamp !== undefined || !/^t=(0|[1-9]\d{0,11})$/.test(item)) return undefined
      timestamp = item.slice(2)
    } else if (/^v1=[0-9a-f]{64}$/.test(item)) {
      tags.push(Result.getOrThrow(Hex.decode(item.slice(3))))
    }
  }
  return timestamp === undefined || tags.length === 0 || tags.length > maxTags ? undefined : { timestamp, tags }
}

const signedContent = (timestamp: string, body: string | Uint8Array): Uint8Array =>
  Bytes.concat([encoder.encode(`${timestamp}.`), typeof body === "string" ? encoder.encode(body) : body])

const serviceKey = (secret: WebhookSecret): Uint8Array => encoder.encode(secret)

/** The key of Standard Webhooks: it decodes the 64 hex digits of the secret as base64, which makes 48 bytes. */
const standardKey = (secret: WebhookSecret): Uint8Array =>
  Result.getOrThrow(Base64.decode(secret.slice("service_whsec_".length)))

/** A `CryptoError` is a defect: keys are never empty, and every platform has HMAC-SHA256. */
const macKey = (key: Uint8Array) => Effect.orDie(Mac.key(Mac.hmacSha256, key))
