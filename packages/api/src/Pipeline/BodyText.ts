import { InvalidRequest } from "@card-rewards/domain/Errors"
import { Effect } from "effect"
import { isUtf8 } from "node:buffer"

/** Levels of a body, at most. No described body has more than 6; reading a deep one may exhaust the stack. */
const maxDepth = 64

/**
 * Keys of an object, at most. No described one has more than 20; one of 90,000, which is 1 MiB, blocked the event loop
 * for 0.25 s.
 */
const maxKeys = 2_000

/**
 * Values of a body, at most; an empty list or object counts as two. No described body of 256 KiB has room for more, and
 * a batch has 9,000. To parse and decode 340,000 empty objects, which are 1 MiB, blocked the event loop for 0.27 s.
 */
const maxValues = 65_536

/** What is wrong with a body that is compressed, or seems to be. */
export const uncompressed = "expected uncompressed JSON in UTF-8"

/** 400 for a body. */
export const invalid = (message: string) => Effect.fail(new InvalidRequest({ part: "body", message }))

/** The JSON text of a body, unless its nesting, keys or values exceed their limits. It is not parsed. */
export const textOf = (bytes: Uint8Array): Effect.Effect<string, InvalidRequest> => {
  if (bytes.byteLength === 0) return invalid("expected a JSON body")
  if (!isUtf8(bytes)) return invalid(uncompressed)
  const excess = excessOf(bytes)
  return excess === undefined ? Effect.succeed(decoder.decode(bytes)) : invalid(`expected JSON of at most ${excess}`)
}

const decoder = new TextDecoder()

/** The keys of the objects that are open, by depth. */
const keys = new Uint32Array(maxDepth + 1)

/** The limit that a JSON text exceeds. Brackets, braces, commas and colons within strings do not count. */
const excessOf = (json: Uint8Array): string | undefined => {
  let depth = 0
  let values = 0
  let inString = false
  keys[0] = 0
  for (let at = 0; at < json.byteLength; at++) {
    const byte = json[at]
    if (inString) {
      if (byte === backslash) at++
      else if (byte === quote) inString = false
    } else if (byte === quote) inString = true
    else if (byte === openBracket || byte === openBrace) {
      if (++depth > maxDepth) return `${maxDepth} levels`
      if (++values > maxValues) return `${maxValues} values`
      keys[depth] = 0
    } else if (byte === closeBracket || byte === closeBrace) depth = Math.max(0, depth - 1)
    else if (byte === colon) {
      const count = (keys[depth] ?? 0) + 1
      if (count > maxKeys) return `${maxKeys} keys in an object`
      keys[depth] = count
    } else if (byte === comma && ++values > maxValues) return `${maxValues} values`
  }
  return undefined
}

const [quote, comma, colon, backslash, openBracket, closeBracket, openBrace, closeBrace] = [
  0x22,
  0x2c,
  0x3a,
  0x5c,
  0x5b,
  0x5d,
  0x7b,
  0x7d
]
