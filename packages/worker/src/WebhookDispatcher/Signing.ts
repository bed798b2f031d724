import { makeSigner, type PrepareHmac, type Signer, type SigningSecrets } from "@card-rewards/domain/WebhookSignature"
import { createHmac, createSecretKey, hash } from "node:crypto"

/** The bytes of a block and of a digest of SHA-256. */
const [blockSize, digestSize] = [64, 32]

/** What has more bytes is signed by `createHmac`. */
const maxShort = 16_384

/** Where something short is copied to, behind a block of the key. */
const scratch = Buffer.alloc(blockSize + maxShort)

/**
 * HMAC-SHA256 (RFC 2104). Something short is signed by two one-shot hashes, which take half as long as an `Hmac` object
 * (1.2 and 2.3 µs for 700 bytes) and leave nothing to the garbage collector.
 */
export const hmac: PrepareHmac = (key) => {
  const prepared = createSecretKey(key)
  const block = Buffer.alloc(blockSize)
  block.set(key.length > blockSize ? hash("sha256", key, "buffer") : key)
  const inner = block.map((byte) => byte ^ 0x36)
  const outer = Buffer.alloc(blockSize + digestSize)
  outer.set(block.map((byte) => byte ^ 0x5c))
  return (start, body, encoding) => {
    const bytes = typeof body === "string" ? Buffer.from(body) : body
    if (start.length + bytes.length > maxShort) {
      return createHmac("sha256", prepared).update(start).update(bytes).digest(encoding)
    }
    scratch.set(inner)
    const from = blockSize + scratch.write(start, blockSize, "latin1")
    const end = from + bytes.length
    scratch.set(bytes, from)
    outer.write(hash("sha256", scratch.subarray(0, end), "binary"), blockSize, "binary")
    return hash("sha256", outer, encoding)
  }
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
