import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Effect } from "effect"
import type { HttpServerError, HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"

/** Largest request body, in bytes (decisions, section 3). */
export const maxBytes = 256 * 1024

/** Why there are no bytes. */
export type Unread = "too large" | "unreadable"

/**
 * All bytes of a request's body, or why there are none. Once they are read, ask {@link withText} for a request that has
 * them: the request itself would wait for bytes that do not come again.
 */
export const read = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<Uint8Array, Unread> => {
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) return Effect.fail("too large")
  return request.headers["expect"] === undefined ? gather(request) : Effect.mapBoth(request.arrayBuffer, {
    onFailure: reasonOf,
    onSuccess: (buffer) => new Uint8Array(buffer)
  })
}

/** Straight from Node's stream: through the request's own reader a short body costs as much as all the rest of its answer. */
const gather = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.callback<Uint8Array, Unread>((resume) => {
    const source = NodeHttpServerRequest.toIncomingMessage(request)
    const chunks: Array<Buffer> = []
    let size = 0
    const end = (exit: Effect.Effect<Uint8Array, Unread>) => {
      source.off("data", onData).off("end", onEnd).off("error", onClose).off("close", onClose)
      resume(exit)
    }
    const onData = (chunk: Buffer) => {
      size += chunk.byteLength
      if (size > maxBytes) {
        source.pause()
        end(Effect.fail("too large"))
      } else chunks.push(chunk)
    }
    const onEnd = () => end(Effect.succeed(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)))
    const onClose = () => end(Effect.fail("unreadable"))
    source.on("data", onData).on("end", onEnd).on("error", onClose).on("close", onClose)
    return Effect.sync(() => source.off("data", onData).off("end", onEnd).off("error", onClose).off("close", onClose))
  })

const reasonOf = ({ reason }: HttpServerError.HttpServerError): Unread =>
  "reason" in reason && reason.reason === "BodyTooLarge" ? "too large" : "unreadable"

/** How deep a body may be nested. No described body needs more than 6; what walks through one may exhaust the stack. */
const maxDepth = 64

const decoder = new TextDecoder()

/** What a body says, if that is text that may be parsed; else why it may not. */
export const textOf = (bytes: Uint8Array): string | { readonly problem: string } => {
  if (bytes.byteLength === 0) return { problem: "expected a JSON body" }
  if (!isUtf8(bytes)) return { problem: "expected JSON in UTF-8" }
  return isDeep(bytes) ? { problem: `expected JSON of at most ${maxDepth} levels` } : decoder.decode(bytes)
}

/** Whether brackets and braces stand too deep in each other; those within strings do not count. */
const isDeep = (json: Uint8Array): boolean => {
  let depth = 0
  let inString = false
  for (let at = 0; at < json.byteLength; at++) {
    const byte = json[at]
    if (inString) {
      if (byte === backslash) at++
      else if (byte === quote) inString = false
    } else if (byte === quote) inString = true
    else if (byte === openBracket || byte === openBrace) {
      if (++depth > maxDepth) return true
    } else if (byte === closeBracket || byte === closeBrace) depth--
  }
  return false
}

const [quote, backslash, openBracket, closeBracket, openBrace, closeBrace] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d]

/** Lets whoever asks the request for its text have what was read before. */
export const keepText = (request: HttpServerRequest.HttpServerRequest, text: string): void => {
  Object.defineProperty(request, "text", { value: Effect.succeed(text) })
}
