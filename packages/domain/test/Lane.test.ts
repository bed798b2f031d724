import { laneOf } from "@card-rewards/domain/Lane"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

describe("the lane of a user", () => {
  // the last hexadecimal digit of published FNV-1a hashes: e40c292c, e70c2de5, bf9cf968
  it.each([["a", 0xc], ["b", 0x5], ["foobar", 0x8]])("of %s is %d", (id, lane) => assert.strictEqual(laneOf(id), lane))

  it.prop("is that of its UTF-8, of one id as of the next", [Schema.String], ([text]) => {
    const id = [...`${text.toWellFormed()}ü${"😀".repeat(127)}`].slice(0, 128).join("")
    let hash = 2_166_136_261n
    for (const byte of Buffer.from(id)) hash = (hash ^ BigInt(byte)) * 16_777_619n % 4_294_967_296n
    assert.strictEqual(laneOf(id), Number(hash % 16n))
    assert.strictEqual(laneOf("a"), 0xc)
  })
})
