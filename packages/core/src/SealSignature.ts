import { Redacted } from "effect"
import { createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign, verify } from "node:crypto"
import type { SecretsKey } from "./Secrets.ts"

/*
 * Ed25519 signatures of exported seals (docs/operations.md, "Anchors"), under keys that are derived from those of
 * SECRETS_KEY: the right to write to the database is not enough to sign.
 */

/** A signing key. */
export interface SigningKey {
  readonly privateKey: KeyObject
  /** The 32 bytes of the public key, in base64. */
  readonly publicKey: string
}

const purpose = "card-rewards journal seals, Ed25519"

/** PKCS #8 of an Ed25519 key, up to the 32 bytes of its seed (RFC 8410). */
const pkcs8 = Buffer.from("302e020100300506032b657004220420", "hex")

const publicKeyBytes = 32

/** The signing key of a secrets key: its seed is HKDF-SHA-256 of the key, without salt. */
export const signingKeyOf = (secretsKey: SecretsKey): SigningKey => {
  const seed = Buffer.from(hkdfSync("sha256", Redacted.value(secretsKey), "", purpose, 32))
  const privateKey = createPrivateKey({ key: Buffer.concat([pkcs8, seed]), format: "der", type: "pkcs8" })
  const spki = createPublicKey(privateKey).export({ format: "der", type: "spki" })
  return { privateKey, publicKey: spki.subarray(-publicKeyBytes).toString("base64") }
}

/** Signs a SHA-256; the signature is in base64. */
export const signDigest = ({ privateKey }: SigningKey, digest: Uint8Array): string =>
  sign(null, digest, privateKey).toString("base64")

/** Whether the key has signed this SHA-256. */
export const isSigned = ({ privateKey }: SigningKey, digest: Uint8Array, signature: string): boolean =>
  verify(null, digest, createPublicKey(privateKey), Buffer.from(signature, "base64"))
