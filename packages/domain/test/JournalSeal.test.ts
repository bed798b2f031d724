import { Reference, UserId } from "@card-rewards/domain/Ids"
import { JournalEntry } from "@card-rewards/domain/Journal"
import { canonicalForm, JournalSeal, noSealHash } from "@card-rewards/domain/JournalSeal"
import { printTimestamp } from "@card-rewards/domain/Time"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"

const Vectors = Schema.fromJsonString(Schema.Array(Schema.Struct({
  entries: Schema.Array(Schema.toEncoded(JournalEntry)),
  canonical: Schema.Array(Schema.String),
  seal: Schema.toEncoded(JournalSeal)
})))

const vectors = Schema.decodeUnknownSync(Vectors, { onExcessProperty: "error" })(
  readFileSync(new URL("../../../docs/journal-seals.json", import.meta.url), "utf8")
)

describe("seals of the journal", () => {
  it("have the canonical forms and the hashes of docs/journal-seals.json", () => {
    let previousHash = noSealHash
    for (const { canonical, entries, seal } of vectors) {
      assert.deepStrictEqual(entries.map(canonicalForm), canonical)
      assert.strictEqual(seal.previousHash, previousHash)
      const hash = createHash("sha256").update(Buffer.from(previousHash, "hex")).update(canonical.join(""))
      previousHash = hash.digest("hex")
      assert.strictEqual(seal.hash, previousHash)
    }
    assert.strictEqual(vectors.length, 3)
  })

  const someEntry = Schema.Struct({
    userId: Schema.optionalKey(UserId),
    rewardId: Schema.optionalKey(UserId),
    reference: Schema.optionalKey(Reference)
  })

  it.prop("have a canonical form of one line, with the members in order of their names", [someEntry], ([some]) => {
    const entry = { ...some, to: "free", amount: "1", asset: "USDC", from: "world", entry: "7", at: printTimestamp(0) }
    const text = canonicalForm(Schema.decodeUnknownSync(Schema.toEncoded(JournalEntry))(entry))
    assert.deepStrictEqual(JSON.parse(text), entry)
    assert.deepStrictEqual(Object.keys(JSON.parse(text)), Object.keys(entry).sort())
    assert.strictEqual(text.indexOf("\n"), text.length - 1)
  })
})
