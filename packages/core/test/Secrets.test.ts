import { NodeCrypto } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { Base64, Hex } from "effect/encoding"
import { createHash } from "node:crypto"
import { hashApiKey, newApiKey, newWebhookSecret, parseKeys, Secrets, type SecretsKey } from "../src/Secrets.ts"
import { secretsKey } from "./TestLayer.ts"

const crypto = Layer.mergeAll(NodeCrypto.layerSecureRandom, NodeCrypto.layerDigest)
const withKeys = (...keys: ReadonlyArray<SecretsKey>) => Effect.provide(Secrets.layer({ keys }))
const encrypt = (location: string) =>
  Effect.gen(function*() {
    const secret = yield* newWebhookSecret
    return { secret, encrypted: yield* (yield* Secrets).encrypt(secret, location) }
  })
const decrypt = (encrypted: Uint8Array, location: string) =>
  Effect.flatMap(Secrets, (secrets) => secrets.decrypt(encrypted, location))
const base64 = (length: number) => Base64.encode(new Uint8Array(length).fill(7))

it.layer(crypto)("Secrets", (it) => {
  it.effect("decrypts a secret at its own location", () =>
    Effect.gen(function*() {
      const { encrypted, secret } = yield* encrypt("a")
      assert.strictEqual(yield* decrypt(encrypted, "a"), secret)
      assert.notInclude(Buffer.from(encrypted).toString("latin1"), secret.slice(20, 30))
    }).pipe(withKeys(secretsKey(1))))

  it.effect("encrypts the same secret differently each time", () =>
    Effect.gen(function*() {
      const secrets = yield* Secrets
      const secret = yield* newWebhookSecret
      const stored = yield* Effect.replicateEffect(secrets.encrypt(secret, "a"), 100)
      assert.strictEqual(new Set(stored.map((bytes) => Hex.encode(bytes))).size, 100)
    }).pipe(withKeys(secretsKey(1))))

  it.effect("cannot decrypt a secret at another location, or with any byte changed", () =>
    Effect.gen(function*() {
      const { encrypted } = yield* encrypt("a")
      assert.strictEqual((yield* Effect.flip(decrypt(encrypted, "b")))._tag, "SecretUnreadable")
      for (const index of encrypted.keys()) {
        const changed = encrypted.with(index, (encrypted[index] ?? 0) ^ 1)
        assert.strictEqual((yield* Effect.flip(decrypt(changed, "a")))._tag, "SecretUnreadable")
        assert.strictEqual((yield* Effect.flip(decrypt(encrypted.subarray(0, index), "a")))._tag, "SecretUnreadable")
      }
    }).pipe(withKeys(secretsKey(1))))

  it.effect("a new first key encrypts, and the old one still decrypts", () =>
    Effect.gen(function*() {
      const old = yield* encrypt("a").pipe(withKeys(secretsKey(1)))
      const fresh = yield* encrypt("a").pipe(withKeys(secretsKey(2), secretsKey(1)))
      const both = withKeys(secretsKey(2), secretsKey(1))
      assert.strictEqual(yield* decrypt(old.encrypted, "a").pipe(both), old.secret)
      assert.strictEqual(yield* decrypt(fresh.encrypted, "a").pipe(withKeys(secretsKey(2))), fresh.secret)
      const error = yield* Effect.flip(decrypt(old.encrypted, "a").pipe(withKeys(secretsKey(2))))
      assert.include(error.message, "is not among the configured ones")
    }))

  it.effect("generated secrets have the contract's form and differ", () =>
    Effect.gen(function*() {
      assert.match(yield* newWebhookSecret, /^service_whsec_[0-9a-f]{64}$/)
      assert.match(Redacted.value(yield* newApiKey("sandbox", 7)), /^service_sk_sandbox_07[0-9a-f]{62}$/)
      assert.match(Redacted.value(yield* newApiKey("production", 7)), /^service_sk_live_07[0-9a-f]{62}$/)
      assert.notStrictEqual(yield* newWebhookSecret, yield* newWebhookSecret)
    }))

  it.effect("the stored hash of an API key is the SHA-256 of the whole key", () =>
    Effect.gen(function*() {
      const key = yield* newApiKey("sandbox", 7)
      const expected = createHash("sha256").update(Redacted.value(key)).digest("hex")
      assert.strictEqual(Hex.encode(yield* hashApiKey(key)), expected)
    }))
})

describe("SECRETS_KEY", () => {
  it.effect("is one or several keys of 32 bytes, in order", () =>
    Effect.gen(function*() {
      const keys = yield* parseKeys(Redacted.make(` ${base64(32)} , ${Base64.encode(new Uint8Array(32).fill(9))}`))
      assert.deepStrictEqual(keys.map((key) => Redacted.value(key)[0]), [7, 9])
    }))

  it.effect.each([
    ["", "key 1 of 1 has 0 bytes"],
    [`${base64(32)},`, "key 2 of 2 has 0 bytes"],
    [`${base64(32)},${base64(31)}`, "key 2 of 2 has 31 bytes"],
    ["no base64!", "key 1 of 1 is not base64"]
  ])("anything but a list of keys is refused with its position and without its value: %s", ([text, message]) =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(parseKeys(Redacted.make(text ?? "")))
      assert.include(error.message, message ?? "")
      assert.notInclude(error.message, base64(31))
    }))
})
