/**
 * How a webhook delivery is signed, and how a signature is checked (contract sections 2.8, 3.4 and 5.7; decisions,
 * section 7). Who checks needs a `Mac` service: on Node `NodeCrypto.layerMac`, elsewhere `Mac.layerWebCrypto`.
 */
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

/** The secret made of 32 random bytes. Another number of bytes is a defect of the caller and throws. */
export const secretFromBytes = (bytes: Uint8Array): WebhookSecret =>
  WebhookSecret.make(`service_whsec_${Hex.encode(bytes)}`)

/** The secrets valid now: the current one and up to four replaced ones (contract section 3.4), newest first. */
export type SigningSecrets = readonly [WebhookSecret, ...ReadonlyArray<WebhookSecret>]

/** One attempt. */
export interface Attempt {
  readonly eventId: string
  /** Exactly what is sent. */
  readonly body: string
  /** The time of this attempt, whole seconds since 1970. */
  readonly timestampSeconds: number
  /** 1 for the first attempt. */
  readonly attempt: number
}

export interface SignedHeaders {
  readonly "x-service-signature": string
  readonly "x-service-event-id": string
  readonly "x-service-attempt": string
  readonly "webhook-id": string
  readonly "webhook-timestamp": string
  readonly "webhook-signature": string
}

/** HMAC-SHA256 under a key that is prepared once: the tag of a text, printed. */
export type PrepareHmac = (key: Uint8Array) => (content: string, encoding: "hex" | "base64") => string

/** The headers that sign an attempt. */
export type Signer = (attempt: Attempt) => SignedHeaders

/**
 * Prepares the keys of the secrets once, and signs attempts with each of them in the order given.
 *
 * `x-service-signature` is `t=<seconds>,v1=<hex>,…`, where `v1` is HMAC-SHA256 keyed by the whole secret over
 * `<seconds>.<body>`; the `stripe` package accepts it. The `webhook-*` headers are those of Standard Webhooks, keyed by
 * the secret without `service_`; the `standardwebhooks` package accepts them.
 */
export const makeSigner = (secrets: SigningSecrets, prepare: PrepareHmac): Signer => {
  const keys = secrets.map((secret) => ({ service: prepare(serviceKey(secret)), standard: prepare(standardKey(secret)) }))
  return ({ attempt, body, eventId, timestampSeconds }) => {
    const seconds = String(timestampSeconds)
    const serviceContent = `${seconds}.${body}`
    const standardContent = `${eventId}.${serviceContent}`
    return {
      "x-service-signature": `t=${seconds}${keys.map((key) => `,v1=${key.service(serviceContent, "hex")}`).join("")}`,
      "x-service-event-id": eventId,
      "x-service-attempt": String(attempt),
      "webhook-id": eventId,
      "webhook-timestamp": seconds,
      "webhook-signature": keys.map((key) => `v1,${key.standard(standardContent, "base64")}`).join(" ")
    }
  }
}

/** Why a signature was not accepted. `NoMatchingSignature`: another secret, or the body was changed on its way. */
export class SignatureRefused extends Schema.TaggedError<SignatureRefused>()("SignatureRefused", {
  reason: Schema.Literals(["MalformedHeader", "NoMatchingSignature", "TimestampTooOld", "TimestampTooNew"]),
  message: Schema.String
}) {}

export interface VerifyInput {
  /** The secrets the receiver holds; one that matches is enough (contract section 5.7). */
  readonly secrets: ReadonlyArray<WebhookSecret>
  /** The value of `x-service-signature`. */
  readonly signature: string
  /** The body as it arrived. Bytes are better: text has already lost what was not valid UTF-8. */
  readonly body: string | Uint8Array
  readonly nowSeconds: number
  /** How far the timestamp may be from `nowSeconds`, in either direction, inclusive. */
  readonly toleranceSeconds: number
}

/**
 * Succeeds when any `v1` of the signature was made by any of the secrets over this body, not too long ago.
 *
 * Every pair is compared, each in constant time, so the time taken tells nothing about a tag. Schemes other than `v1`
 * are skipped, as later versions may add some. The timestamp is judged after the signature.
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
  if (ageSeconds > input.toleranceSeconds) {
    return yield* refused("TimestampTooOld", "the delivery was signed too long ago")
  }
  if (-ageSeconds > input.toleranceSeconds) {
    return yield* refused("TimestampTooNew", "the delivery was signed in the future")
  }
})

const encoder = new TextEncoder()

const refused = (reason: SignatureRefused["reason"], message: string) => new SignatureRefused({ reason, message })

/** Five tags need less than 400 characters; the limits leave room for other schemes. */
const maxSignatureLength = 4096
const maxTags = 32

/** `timestamp` stays text: it is what was signed. */
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

const signedContent = (timestamp: string, body: string | Uint8Array): Uint8Array => {
  const prefix = encoder.encode(`${timestamp}.`)
  const bytes = typeof body === "string" ? encoder.encode(body) : body
  const content = new Uint8Array(prefix.length + bytes.length)
  content.set(prefix)
  content.set(bytes, prefix.length)
  return content
}

const serviceKey = (secret: WebhookSecret): Uint8Array => encoder.encode(secret)

/** What Standard Webhooks reads from `whsec_<64 hex>`: the digits are decoded as base64, which makes 48 bytes. */
const standardKey = (secret: WebhookSecret): Uint8Array =>
  Result.getOrThrow(Base64.decode(secret.slice("service_whsec_".length)))

/** Keys are never empty and HMAC-SHA256 is everywhere, so a `CryptoError` is a defect. */
const macKey = (key: Uint8Array) => Effect.orDie(Mac.key(Mac.hmacSha256, key))
