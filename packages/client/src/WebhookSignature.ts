/** For the receiver of webhooks: is this delivery ours, untouched and fresh, and what does it say? */
import { WebhookEvent } from "@card-rewards/domain/Event"
import { SignatureRefused, verify, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Clock, Effect, Layer, Schema } from "effect"
import { Mac, SecureRandom } from "effect/crypto"

export { SignatureRefused }

/** A header is missing or there twice, or a secret is not of the form `service_whsec_<64 hex digits>`. */
export class WebhookUnreadable extends Schema.TaggedError<WebhookUnreadable>()("WebhookUnreadable", {
  reason: Schema.Literals(["MissingSignature", "RepeatedSignature", "MalformedSecret"]),
  message: Schema.String
}) {}

/**
 * The signature is right, but the body is no event this version of the client knows; answer 2xx to be sent no more of
 * it.
 */
export class UnknownEvent extends Schema.TaggedError<UnknownEvent>()("UnknownEvent", { message: Schema.String }) {}

/** What web frameworks call headers: the web's `Headers`, or a record with names in any case. */
export type WebhookHeaders =
  | { readonly get: (name: string) => string | null }
  | Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

export interface WebhookDelivery {
  /** The request's body exactly as it arrived, before any JSON parser; bytes if they can be had. */
  readonly body: string | Uint8Array
  readonly headers: WebhookHeaders
  /** Every secret held, in any order: while a rotation is being deployed these are two. */
  readonly secrets: ReadonlyArray<string>
  /** The greatest accepted distance between the signature's time and this machine's clock. */
  readonly toleranceSeconds?: number
}

/**
 * The event of a delivery whose `x-service-signature` was made with a held secret over this very body, at most
 * `toleranceSeconds` (300) ago or ahead (contract section 5.7; decisions, section 7). Tags are compared in constant
 * time.
 *
 * Delivery is at least once and within the tolerance a copy verifies again: remember the `id` of handled events.
 * Fails with `SignatureRefused` (answer 400), `WebhookUnreadable` or `UnknownEvent`.
 */
export const verifyWebhook = (delivery: WebhookDelivery) => verifyWebhookAs(WebhookEvent)(delivery)

/** {@link verifyWebhook} for another schema of the body, which is given the parsed JSON. */
export const verifyWebhookAs = <A>(schema: Schema.Decoder<A>) => {
  const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(schema))
  return Effect.fn("verifyWebhook")(function*(delivery: WebhookDelivery) {
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
