import { makeSigner, type Signer, type SigningSecrets } from "@card-rewards/domain/WebhookSignature"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Context, Effect, Layer } from "effect"
import { Mac } from "effect/crypto"
import { createHmac, createSecretKey, type KeyObject } from "node:crypto"

/**
 * Signers by the very list of secrets, which `Deliveries` gives again as long as it does not change. A key is prepared
 * once: preparing it for every attempt would take longer than signing.
 */
export class Signing extends Context.Service<Signing, {
  readonly signerOf: (secrets: SigningSecrets) => Effect.Effect<Signer>
}>()("@card-rewards/worker/Signing") {
  static readonly layer = Layer.effect(
    Signing,
    Effect.gen(function*() {
      const mac = yield* Mac.Mac
      const signers = new WeakMap<SigningSecrets, Signer>()
      const signerOf = Effect.fnUntraced(function*(secrets: SigningSecrets) {
        const known = signers.get(secrets)
        if (known !== undefined) return known
        const signer = yield* Effect.provideService(makeSigner(secrets), Mac.Mac, mac)
        signers.set(secrets, signer)
        return signer
      })
      return Signing.of({ signerOf })
    })
  ).pipe(Layer.provide(Layer.suspend(() => preparedMac)))
}

const preparedMac = Layer.suspend(() => {
  const prepared = new WeakMap<Uint8Array, KeyObject>()
  const keyOf = (bytes: Uint8Array): KeyObject => {
    const known = prepared.get(bytes) ?? createSecretKey(bytes)
    prepared.set(bytes, known)
    return known
  }
  return Mac.layerWebCryptoWith({
    hmac: (hash, key, data) =>
      // a copy, as digests are views of the process's shared pool
      new Uint8Array(createHmac(hash.replace("-", "").toLowerCase(), keyOf(key)).update(data).digest())
  }).pipe(Layer.provide(NodeCrypto.layerSecureRandom))
})
