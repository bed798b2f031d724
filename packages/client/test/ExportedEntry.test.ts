import { readEntry } from "@card-rewards/client/ExportedEntry"
import { canonicalForm } from "@card-rewards/domain/JournalSeal"
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { storyOf, storyParts } from "./journal/JournalStories.ts"
import { canonicalBytes, type Entry, type Seal, sealed } from "./journal/SecondSeals.ts"

describe("the canonical form", () => {
  it.prop("has the bytes of the second implementation, whatever strings an entry has", [storyParts], ([parts]) => {
    for (const entry of storyOf(parts).entries) {
      const read = readEntry(JSON.stringify(entry))
      if ("reason" in read) return assert.fail(read.reason)
      assert.strictEqual(Buffer.from(read.canonical).toString("hex"), canonicalBytes(entry).toString("hex"))
      assert.strictEqual(read.canonical, canonicalForm(read.printed))
    }
  })

  it("and its seals have, by the second implementation, the hashes of docs/journal-seals.json", () => {
    const file = readFileSync(new URL("../../../docs/journal-seals.json", import.meta.url), "utf8")
    const vectors: ReadonlyArray<{ entries: ReadonlyArray<Entry>; seal: Seal }> = JSON.parse(file)
    const seals = sealed(vectors.flatMap(({ entries }) => entries), vectors.map(({ entries }) => entries.length))
    assert.deepStrictEqual(seals.map(({ hash }) => hash), vectors.map(({ seal }) => seal.hash))
  })
})

describe("an exported entry", () => {
  const one = { entry: "2", at: "2026-11-02T09:30:00.000Z", asset: "USDC", from: "world", to: "free", amount: "1" }
  const line = JSON.stringify(one)

  it.each<[malformed: unknown, reason: RegExp]>([
    ["", /no JSON object/],
    [line.slice(0, -1), /no JSON object/],
    ["[]", /no JSON object/],
    ["null", /no JSON object/],
    [`${line}${line}`, /no JSON object/],
    [`${line.slice(0, -1)},"amount":"1"}`, /twice/],
    [`${line.slice(0, -1)},"\\u0061mount":"1"}`, /twice/],
    [`${line.slice(0, -1)},"later":{"amount":"1"},"amount" : "1"}`, /twice/],
    [`{"__proto__":${line}}`, /missing/],
    [{ ...one, amount: undefined }, /missing/],
    [{ ...one, userId: null }, /userId/],
    [{ ...one, userId: "" }, /userId/],
    [{ ...one, userId: "\ud800" }, /userId/],
    [{ ...one, reference: 7 }, /reference/],
    [{ ...one, rewardId: "a\0" }, /rewardId/],
    [{ ...one, amount: "01" }, /amount/],
    [{ ...one, amount: "0" }, /amount/],
    [{ ...one, amount: "-1" }, /amount/],
    [{ ...one, amount: 1 }, /amount/],
    [{ ...one, amount: "9".repeat(79) }, /amount/],
    [{ ...one, entry: "02" }, /entry/],
    [{ ...one, asset: "BTC" }, /asset/],
    [{ ...one, from: "toString" }, /from/],
    [{ ...one, at: "2026-11-02T09:30:00Z" }, /at/],
    [{ ...one, at: "2026-02-30T09:30:00.000Z" }, /at/],
    [{ ...one, at: Number.NaN }, /at/],
    [`${" ".repeat(65_536)}${line}`, /more than 65536/]
  ])("is refused where no service prints it: %j", (malformed, reason) => {
    const read = readEntry(malformed)
    if (!("reason" in read)) return assert.fail(read.canonical)
    assert.match(read.reason, reason)
  })

  it("may have white space, and other escapes of the same text", () => {
    const read = readEntry(` { ${line.slice(1, -1)} , "userId" : "\\u0061\\/\\u00e9" }\r`)
    if ("reason" in read) return assert.fail(read.reason)
    assert.strictEqual(read.canonical, canonicalBytes({ ...one, userId: "a/é" }).toString())
  })

  it.each<[later: string]>([
    [`"later":"1"`],
    [`"later":{"amount":"2","to":{"to":"free"}},"more":[{"entry":3},[null,true]]`],
    [`"later":"\\"amount\\":","e":"{"`],
    [`"__proto__":{"amount":"2","userId":"u"},"constructor":"1"`]
  ])("may have members that later versions of the service add, which are not sealed: %s", (later) => {
    for (const text of [`${line.slice(0, -1)},${later}}`, `{${later},${line.slice(1)}`]) {
      for (const exported of [text, JSON.parse(text)]) {
        assert.deepStrictEqual(readEntry(exported), readEntry(line))
      }
    }
  })
})
