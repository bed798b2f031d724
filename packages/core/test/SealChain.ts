import { Journal } from "@card-rewards/core/Journal"
import { JournalSeals } from "@card-rewards/core/JournalSeals"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { JournalEntry } from "@card-rewards/domain/Journal"
import { canonicalForm, maxSealedEntries, noSealHash } from "@card-rewards/domain/JournalSeal"
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { createHash } from "node:crypto"

const decodeEntry = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.toEncoded(JournalEntry)))

/** All entries of an integrator as it reads them. */
export const readJournal = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const { list } = yield* Journal
  const entries: Array<typeof JournalEntry.Encoded> = []
  for (let after = 0n; ;) {
    const page = yield* list(integratorId, { after, limit: 1_000 })
    if (page.entries.length === 0) return entries
    entries.push(...page.entries.map((text) => decodeEntry(text)))
    after = page.next
  }
})

/** Recomputes an integrator's chain from what the API shows, without the service's SQL. Returns the seals. */
export const verifyChain = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const { list } = yield* JournalSeals
  const entries = yield* readJournal(integratorId)
  const { seals } = yield* list(integratorId, { after: 0n, limit: 100_000 })
  let previousHash = noSealHash
  let sealed = 0
  for (const [index, seal] of seals.entries()) {
    const length = Number(seal.toEntry - seal.fromEntry) + 1
    assert.isTrue(length >= 1 && length <= maxSealedEntries, `${length} entries`)
    assert.deepInclude(seal, { seal: BigInt(index + 1), fromEntry: BigInt(sealed + 1), previousHash })
    const hash = createHash("sha256").update(Buffer.from(previousHash, "hex"))
    for (const entry of entries.slice(sealed, sealed + length)) hash.update(canonicalForm(entry))
    previousHash = hash.digest("hex")
    assert.strictEqual(seal.hash, previousHash, `seal ${seal.seal}`)
    sealed += length
  }
  return { entries, seals }
})
