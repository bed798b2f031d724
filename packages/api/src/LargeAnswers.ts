import { maxShare } from "@card-rewards/core/Batcher/FairQueue"
import type { TextInPieces } from "@card-rewards/core/Programs/ProgramText"
import { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { maxPageBytes } from "@card-rewards/domain/Pagination"
import { Context, Effect, Layer, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { SharedLimit } from "./Pipeline/SharedLimit.ts"

/** Answers up to this size go to the connection at once, and count nothing. */
const smallBytes = 65_536

/** Bytes of larger answers in memory until their clients have read them, at most; one integrator has a quarter. */
const maxUnreadBytes = 64 * maxPageBytes

const options = { contentType: "application/json" }

/**
 * Answers of JSON text that may be large. What a client has not read counts, until the request's fiber ends, against a
 * limit of all integrators and of each; an answer beyond it is 503.
 */
export class LargeAnswers extends Context.Service<LargeAnswers, {
  readonly text: (
    integratorId: IntegratorId,
    text: string
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, Unavailable>
  /**
   * Pulls each piece, of about {@link maxPageBytes}, once the client has read the one before. A failure after the first
   * one closes the connection.
   */
  readonly pieces: (
    integratorId: IntegratorId,
    text: TextInPieces
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, Unavailable>
}>()("@card-rewards/api/LargeAnswers") {
  static readonly layer: Layer.Layer<LargeAnswers> = Layer.sync(LargeAnswers, () => {
    const unread = new SharedLimit(maxUnreadBytes)
    const stream = (integratorId: IntegratorId, size: number, body: Stream.Stream<Uint8Array, Unavailable>) =>
      Effect.withFiber<HttpServerResponse.HttpServerResponse, Unavailable>((fiber) => {
        // one answer alone is never beyond the limit
        const bytes = Math.min(size, maxUnreadBytes * maxShare)
        if (!unread.take(integratorId, bytes)) return tooManyUnread
        fiber.addObserver(() => unread.giveBack(integratorId, bytes))
        return Effect.succeed(HttpServerResponse.stream(body, options))
      })
    const large = (integratorId: IntegratorId, body: Uint8Array) =>
      stream(integratorId, body.byteLength, Stream.succeed(body))
    return LargeAnswers.of({
      text: (integratorId, text) =>
        Buffer.byteLength(text) <= smallBytes
          ? Effect.succeed(HttpServerResponse.text(text, options))
          : large(integratorId, Buffer.from(text)),
      pieces: (integratorId, { first, rest }) =>
        rest !== undefined
          // the stream keeps the first piece while it has another one
          ? stream(integratorId, 2 * maxPageBytes, Stream.concat(Stream.succeed(first), rest))
          : first.byteLength <= smallBytes
          ? Effect.succeed(HttpServerResponse.uint8Array(first, options))
          : large(integratorId, first)
    })
  })
}

const tooManyUnread = Effect.fail(
  new Unavailable({ message: "Too many large answers are being read; send the same request again" })
)
