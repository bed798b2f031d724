import type { SecretsKey } from "@card-rewards/core/Secrets"
import { SealAnchor } from "@card-rewards/core/SealAnchors"
import { isSigned, signDigest, type SigningKey, signingKeyOf } from "@card-rewards/core/SealSignature"
import { printTimestamp, Timestamp } from "@card-rewards/domain/Time"
import { Effect, FileSystem, Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import { Misused, Refused } from "./Exit.ts"

/**
 * A file of anchors is JSON by RFC 8785 (members in order of their names, no white space) and a line feed:
 * `{"exportedAt", "publicKey", "seals": [{"hash", "integratorId", "seal", "toEntry"}, …], "signature"}`. `signature` is
 * Ed25519 over the SHA-256 of the same JSON without the member `signature`.
 */
const SealsFile = Schema.fromJsonString(Schema.Struct({
  exportedAt: Timestamp,
  publicKey: Schema.String,
  seals: Schema.Array(SealAnchor),
  signature: Schema.String
}))

/** About a million integrators. */
const maxFileBytes = 256 * 1_048_576

/** Only its owner may read the file, since it names all integrators. */
const mode = 0o600

const head = (exportedAt: number, publicKey: string): string =>
  `{"exportedAt":"${printTimestamp(exportedAt)}","publicKey":${JSON.stringify(publicKey)},"seals":[`

const textOf = ({ hash, integratorId, seal, toEntry }: SealAnchor): string =>
  JSON.stringify({ hash, integratorId, seal: seal.toString(), toEntry: toEntry.toString() })

/**
 * Writes a new file, as the anchors come, and signs it. Refuses to overwrite one; removes the file where it could not
 * be written as a whole. Returns the number of seals, the public key and the signature.
 */
export const write = Effect.fnUntraced(function*<E, R>(
  path: string,
  { anchors, exportedAt, key }: {
    readonly anchors: Stream.Stream<ReadonlyArray<SealAnchor>, E, R>
    readonly exportedAt: number
    readonly key: SigningKey
  }
) {
  const files = yield* FileSystem.FileSystem
  const file = yield* files.open(path, { flag: "wx", mode }).pipe(
    Effect.mapError(() => new Misused({ message: `${path}: cannot be created, or is there already` }))
  )
  const digest = createHash("sha256")
  const encoder = new TextEncoder()
  const add = (text: string) => {
    const bytes = encoder.encode(text)
    digest.update(bytes)
    return file.writeAll(bytes)
  }
  let seals = 0
  const written = Effect.gen(function*() {
    yield* add(head(exportedAt, key.publicKey))
    yield* Stream.runForEach(anchors, (some) => {
      const text = some.map((anchor, index) => `${seals + index > 0 ? "," : ""}${textOf(anchor)}`).join("")
      seals += some.length
      return add(text)
    })
    yield* add("]")
    const signature = signDigest(key, digest.update("}").digest())
    yield* file.writeAll(encoder.encode(`,"signature":${JSON.stringify(signature)}}\n`))
    yield* file.sync
    return { seals, publicKey: key.publicKey, signature }
  })
  return yield* Effect.onError(written, () => Effect.ignore(files.remove(path)))
}, Effect.scoped)

/** Reads a file and checks that it was signed with one of the keys. */
export const read = Effect.fnUntraced(function*(path: string, keys: ReadonlyArray<SecretsKey>) {
  const files = yield* FileSystem.FileSystem
  const misused = (problem: string) => new Misused({ message: `${path}: ${problem}` })
  const { size } = yield* Effect.mapError(files.stat(path), () => misused("cannot be read"))
  if (size > maxFileBytes) return yield* misused(`has more than ${maxFileBytes} bytes`)
  const text = yield* Effect.mapError(files.readFileString(path), () => misused("cannot be read"))
  const file = yield* Effect.mapError(decode(text), () => misused("is not a file of seals"))
  const key = keys.map(signingKeyOf).find(({ publicKey }) => publicKey === file.publicKey)
  if (key === undefined) return yield* new Refused({ message: `${path}: was signed with a key that is not configured` })
  const digest = createHash("sha256").update(head(file.exportedAt, file.publicKey))
  for (const [index, anchor] of file.seals.entries()) digest.update(`${index > 0 ? "," : ""}${textOf(anchor)}`)
  if (!isSigned(key, digest.update("]}").digest(), file.signature)) {
    return yield* new Refused({ message: `${path}: the signature is not that of its content` })
  }
  return file
})

const decode = Schema.decodeEffect(SealsFile, { onExcessProperty: "error" })
