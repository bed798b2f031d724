import type { VaultId } from "@card-rewards/domain/Ids"
import { secretFromBytes, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Bytes, Context, Effect, Layer, Option, Redacted, Result, Schema } from "effect"
import { Aead, Digest, SecureRandom } from "effect/crypto"
import { Base64, Hex } from "effect/encoding"

/** An AES-256 key, 32 bytes. */
export type SecretsKey = Redacted.Redacted<Uint8Array>

/** A stored secret was encrypted with a key that is not configured, or was altered. */
export class SecretUnreadable extends Schema.TaggedError<SecretUnreadable>()("SecretUnreadable", {
  message: Schema.String
}) {}

/** The SECRETS_KEY variable is not a list of keys. The message says which key is wrong and never contains its value. */
export class InvalidSecretsKey extends Schema.TaggedError<InvalidSecretsKey>()("InvalidSecretsKey", {
  message: Schema.String
}) {}

/**
 * Encryption of webhook signing secrets at rest, AES-256-GCM (decisions, section 7). The first key encrypts, every key
 * decrypts, so that keys can be replaced without downtime.
 *
 * The stored bytes are `key id (4) ‖ nonce (12) ‖ ciphertext ‖ tag (16)`. `location` names the row of the secret and is
 * authenticated as associated data: a ciphertext that is copied to another row is unreadable.
 */
export class Secrets extends Context.Service<Secrets, {
  /** The id of the first key, with which the result of `encrypt` begins. */
  readonly keyId: Uint8Array
  readonly encrypt: (text: string, location: string) => Effect.Effect<Uint8Array>
  /** The text that was encrypted. */
  readonly decryptText: (encrypted: Uint8Array, location: string) => Effect.Effect<string, SecretUnreadable>
  readonly decrypt: (encrypted: Uint8Array, location: string) => Effect.Effect<WebhookSecret, SecretUnreadable>
}>()("@card-rewards/core/Secrets") {
  /** Dies when it is built without a key, or with a key of another length than 32 bytes. */
  static readonly layer = (options: { readonly keys: ReadonlyArray<SecretsKey> }): Layer.Layer<Secrets> =>
    Layer.effect(Secrets, make(options.keys)).pipe(
      Layer.provide([NodeCrypto.layerAead, NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom])
    )
}

const keyIdBytes = 4
const nonceBytes = 12
const keyBytes = 32

const make = Effect.fnUntraced(function*(secretsKeys: ReadonlyArray<SecretsKey>) {
  const aead = yield* Aead.Aead
  const random = yield* SecureRandom.SecureRandom
  const keys = yield* Effect.forEach(secretsKeys, keyWithId).pipe(Effect.orDie)
  const [current] = keys
  if (current === undefined) return yield* Effect.die(new Error("Secrets need at least one key"))

  const encrypt = Effect.fn("Secrets.encrypt")(function*(text: string, location: string) {
    const nonce = yield* random.randomBytes(nonceBytes)
    const sealed = yield* aead.encrypt(current.key, encoder.encode(text), { nonce, aad: encoder.encode(location) })
    return Bytes.concat([current.id, nonce, sealed])
  }, Effect.orDie)

  const unreadable = () =>
    new SecretUnreadable({ message: "The stored secret is damaged or was copied from another row" })

  const decryptText = Effect.fn("Secrets.decrypt")(function*(encrypted: Uint8Array, location: string) {
    const id = Hex.encode(encrypted.subarray(0, keyIdBytes))
    const found = keys.find((candidate) => Hex.encode(candidate.id) === id)
    if (found === undefined) {
      return yield* new SecretUnreadable({ message: `The secrets key ${id} is not among the configured ones` })
    }
    const nonce = encrypted.subarray(keyIdBytes, keyIdBytes + nonceBytes)
    const sealed = encrypted.subarray(keyIdBytes + nonceBytes)
    return yield* aead.decrypt(found.key, sealed, { nonce, aad: encoder.encode(location) }).pipe(
      Effect.mapBoth({ onFailure: unreadable, onSuccess: (bytes) => decoder.decode(bytes) })
    )
  })
  const decrypt = (encrypted: Uint8Array, location: string) =>
    Effect.flatMap(decryptText(encrypted, location), (text) =>
      Effect.mapError(Schema.decodeEffect(WebhookSecret)(text), unreadable))

  return Secrets.of({ keyId: current.id, encrypt, decrypt, decryptText })
})

const keyWithId = Effect.fnUntraced(function*(secretsKey: SecretsKey) {
  const digest = yield* Digest.Digest
  const bytes = Redacted.value(secretsKey)
  const hash = yield* digest.digest(Digest.sha256, Bytes.concat([encoder.encode("card-rewards secrets key"), bytes]))
  return { id: hash.slice(0, keyIdBytes), key: yield* Aead.key(Aead.aes256Gcm, bytes) }
})

/** The keys of the SECRETS_KEY variable: base64 of 32 bytes each, comma separated, the encrypting one first. */
export const parseKeys = Effect.fnUntraced(function*(
  variable: Redacted.Redacted
): Effect.fn.Return<ReadonlyArray<SecretsKey>, InvalidSecretsKey> {
  const parts = Redacted.value(variable).split(",").map((part) => part.trim())
  return yield* Effect.forEach(parts, (part, index) => {
    const bytes = Option.getOrUndefined(Result.getSuccess(Base64.decode(part)))
    return bytes?.length === keyBytes
      ? Effect.succeed(Redacted.make(bytes))
      : Effect.fail(
        new InvalidSecretsKey({
          message: `SECRETS_KEY: key ${index + 1} of ${parts.length} ` +
            (bytes === undefined ? "is not base64" : `has ${bytes.length} bytes, but must have ${keyBytes}`) +
            "; make one with: openssl rand -base64 32"
        })
      )
  })
})

/** Generates a signing secret, `service_whsec_<64 hex>` (contract, section 2.8). */
export const newWebhookSecret: Effect.Effect<WebhookSecret, never, SecureRandom.SecureRandom> = Effect.gen(function*() {
  const random = yield* SecureRandom.SecureRandom
  return secretFromBytes(yield* random.randomBytes(32))
})

/**
 * Generates an API key, `service_sk_sandbox_<64 hex>` or `service_sk_live_<64 hex>` (contract, section 2.7). The first
 * byte is the slot of its integrator (Slots.ts), the others are random.
 */
export const newApiKey = Effect.fnUntraced(function*(
  environment: VaultId,
  slot: number
): Effect.fn.Return<Redacted.Redacted, never, SecureRandom.SecureRandom> {
  const random = yield* SecureRandom.SecureRandom
  const prefix = environment === "production" ? "service_sk_live_" : "service_sk_sandbox_"
  const bytes = yield* random.randomBytes(32)
  bytes[0] = slot
  return Redacted.make(prefix + Hex.encode(bytes), { label: "apiKey" })
})

/** The stored form of an API key: SHA-256 of the whole key, prefix included (decisions, section 7). */
export const hashApiKey = Effect.fnUntraced(function*(
  apiKey: Redacted.Redacted
): Effect.fn.Return<Uint8Array, never, Digest.Digest> {
  const digest = yield* Digest.Digest
  return yield* digest.digest(Digest.sha256, encoder.encode(Redacted.value(apiKey)))
})

const encoder = new TextEncoder()
const decoder = new TextDecoder()
