import { NodeHttpServerRequest } from "@effect/platform-node"
import { Effect } from "effect"
import type { HttpServerError, HttpServerRequest } from "effect/http"

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

/** Lets whoever asks the request for its text have what was read before. */
export const keepText = (request: HttpServerRequest.HttpServerRequest, text: string): void => {
  Object.defineProperty(request, "text", { value: Effect.succeed(text) })
}
