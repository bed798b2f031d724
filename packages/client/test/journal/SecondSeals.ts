/**
 * A second implementation of the seals, from the text of docs/money.md alone: it builds the bytes of an entry one by
 * one, and uses neither JSON nor the code of the domain.
 */
import { createHash } from "node:crypto"

/** An entry as the API prints it. */
export type Entry = Readonly<Record<string, string | undefined>>

/** The bytes of an entry that a seal covers. */
export const canonicalBytes = (entry: Entry): Buffer => {
  const bytes: Array<number> = []
  const text = (value: string) => {
    bytes.push(0x22)
    for (const character of value) {
      const point = character.codePointAt(0) ?? 0
      if (point === 0x22 || point === 0x5c) bytes.push(0x5c, point)
      else if (point < 0x20) bytes.push(...controlCharacter(point))
      else bytes.push(...utf8(point))
    }
    bytes.push(0x22)
  }
  let separator = 0x7b
  for (const name of Object.keys(entry).sort()) {
    const value = entry[name]
    if (value === undefined) continue
    bytes.push(separator)
    separator = 0x2c
    text(name)
    bytes.push(0x3a)
    text(value)
  }
  bytes.push(0x7d, 0x0a)
  return Buffer.from(bytes)
}

/** The characters after the backslash of the control characters that have a short escape. */
const shortEscapes = new Map([[8, 0x62], [9, 0x74], [10, 0x6e], [12, 0x66], [13, 0x72]])

const controlCharacter = (point: number): ReadonlyArray<number> => {
  const short = shortEscapes.get(point)
  return short === undefined
    ? [0x5c, 0x75, 0x30, 0x30, 0x30 + (point >> 4), lowerHexDigit(point & 15)]
    : [0x5c, short]
}

const lowerHexDigit = (value: number): number => value < 10 ? 0x30 + value : 0x61 + value - 10

const utf8 = (point: number): ReadonlyArray<number> => {
  if (point < 0x80) return [point]
  const tail = (shift: number) => 0x80 | (point >> shift) & 0x3f
  if (point < 0x800) return [0xc0 | point >> 6, tail(0)]
  if (point < 0x10000) return [0xe0 | point >> 12, tail(6), tail(0)]
  return [0xf0 | point >> 18, tail(12), tail(6), tail(0)]
}

/** A seal as the API prints it. */
export interface Seal {
  readonly seal: string
  readonly fromEntry: string
  readonly toEntry: string
  readonly at: string
  readonly previousHash: string
  readonly hash: string
}

/** Seals entries, which are numbered from 1; each seal has as many of them as `sizes` says, and the rest has none. */
export const sealed = (entries: ReadonlyArray<Entry>, sizes: ReadonlyArray<number>): Array<Seal> => {
  let previousHash = "00".repeat(32)
  let end = 0
  return sizes.map((size, index) => {
    const hash = createHash("sha256").update(Buffer.from(previousHash, "hex"))
    for (const entry of entries.slice(end, end + size)) hash.update(canonicalBytes(entry))
    const seal = {
      seal: `${index + 1}`,
      fromEntry: `${end + 1}`,
      toEntry: `${end += size}`,
      at: "2026-11-03T00:01:00.000Z",
      previousHash,
      hash: hash.digest("hex")
    }
    previousHash = seal.hash
    return seal
  })
}
