/** Verification of webhooks by their receiver. */
import { WebhookEvent } from "@card-rewards/domain/Event"
import { SignatureRefused, verify, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Clock, Effect, Layer, Schema } from "effect"
import { Mac, SecureRandom } from "effect/crypto"

export { SignatureRefused }

/**
 * The signature header is missing or repeated, a secret does not have the form `service_whsec_<64 hex digits>`, or the
 * body is neither text nor bytes: it has been parsed.
 */
export class WebhookUnreadable extends Schema.TaggedError<WebhookUnreadable>()("WebhookUnreadable", {
  reason: Schema.Literals(["MissingSignature", "RepeatedSignature", "MalformedSecret", "ParsedBody"]),
  message: Schema.String
}) {}

/**
 * The signature is valid, but the body is not an event that this version of the client knows. Respond 2xx, so that the
 * service does not deliver it again.
 */
export class UnknownEvent extends Schema.TaggedError<UnknownEvent>()("UnknownEvent", { message: Schema.String }) {}

/** Headers as web frameworks have them: a `Headers` object, or a record with names in upper or lower case. */
export type WebhookHeaders =
  | { readonly get: (name: string) => string | null }
  | Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** One received webhook and what it is verified with. */
export interface WebhookDelivery {
  /** The request's body exactly as it arrived, before any JSON parser; preferably its bytes. */
  readonly body: string | Uint8Array
  readonly headers: WebhookHeaders
  /** All secrets of the endpoint that the receiver has, in any order: two during a rotation. */
  readonly secrets: ReadonlyArray<string>
  /** The greatest accepted difference between the signature's time and this machine's clock; 300 by default. */
  readonly toleranceSeconds?: number
}

/**
 * Returns the event of a delivery whose `x-service-signature` was made with one of the secrets over exactly this body,
 * no more than `toleranceSeconds` ago or ahead (contract section 5.7; decisions, section 7). Tags are compared in
 * constant time.
 *
 * Webhooks are delivered at least once, and a replay within the tolerance verifies: store the `id` of handled events.
 * Fails with `SignatureRefused` (respond 400), `WebhookUnreadable` or `UnknownEvent`.
 */
export const verifyWebhook = (
  delivery: WebhookDelivery
): Effect.Effect<WebhookEvent, SignatureRefused | WebhookUnreadable | UnknownEvent> =>
  verifyWebhookAs(WebhookEvent)(delivery)

/** {@link verifyWebhook} with another schema for the parsed JSON of the body. */
export const verifyWebhookAs = <A>(schema: Schema.Decoder<A>) => {
  const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(schema))
  return Effect.fn("verifyWebhook")(function*(delivery: WebhookDelivery) {
    // frameworks type it as `any`
    if (typeof delivery.body !== "string" && !(delivery.body instanceof Uint8Array)) {
      return yield* unreadable("ParsedBody", "the body must be the text or bytes that arrived, before any JSON parser")
    }
    const signature = yield* signatureOf(delivery.headers)
    const secrets = yield* decodeSecrets(delivery.secrets).pipe(
      Effect.mapError(() => unreadable("MalformedSecret", "a secret is not of the form service_whsec_<64 hex digits>"))
    )
    const nowMillis = yield* Clock.currentTimeMillis
    yield* verify({
      secrets,
      signature,
      body: delivery.body,
      nowSeconds: Math.floor(nowMillis / 1000),
      toleranceSeconds: delivery.toleranceSeconds ?? 300
    })
    const text = typeof delivery.body === "string" ? delivery.body : new TextDecoder().decode(delivery.body)
    return yield* decode(text).pipe(
      Effect.mapError(() => new UnknownEvent({ message: "the body is not an event known to this version" }))
    )
  }, Effect.provide(macLayer))
}

const macLayer = Mac.layerWebCrypto.pipe(Layer.provide(SecureRandom.layerWebCrypto))

const decodeSecrets = Schema.decodeUnknownEffect(Schema.Array(WebhookSecret))

const unreadable = (reason: WebhookUnreadable["reason"], message: string) => new WebhookUnreadable({ reason, message })

const signatureName = "x-service-signature"

const signatureOf = Effect.fnUntraced(function*(headers: WebhookHeaders) {
  const values = typeof headers.get === "function"
    ? [headers.get(signatureName) ?? undefined]
    : Object.entries(headers).filter(([name]) => name.toLowerCase() === signatureName).flatMap(([, value]) => value)
  const [signature, ...others] = values.filter((value) => value !== undefined)
  if (signature === undefined) return yield* unreadable("MissingSignature", `the header ${signatureName} is missing`)
  if (others.length > 0) return yield* unreadable("RepeatedSignature", `the header ${signatureName} is there twice`)
  return signature
})
