import { makeSigner, type PrepareHmac, type Signer, type SigningSecrets } from "@card-rewards/domain/WebhookSignature"
import { createHmac, createSecretKey } from "node:crypto"

const hmac: PrepareHmac = (key) => {
  const prepared = createSecretKey(key)
  return (content, encoding) => createHmac("sha256", prepared).update(content).digest(encoding)
}

const signers = new WeakMap<SigningSecrets, Signer>()

/**
 * The signer of a list of secrets, the same for the same list, which `Deliveries` returns as long as it does not
 * change: to prepare a key for every attempt would take longer than to sign.
 */
export const signerOf = (secrets: SigningSecrets): Signer => {
  const known = signers.get(secrets) ?? makeSigner(secrets, hmac)
  signers.set(secrets, known)
  return known
}
