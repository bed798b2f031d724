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

const json = { contentType: "application/json" }

/** The content type of an answer, and further headers. */
export interface AnswerOptions {
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Answers of text that may be large, of JSON by default. What a client has not read counts, until the request's fiber
 * ends, against a limit of all integrators and of each; an answer beyond it is 503.
 */
export class LargeAnswers extends Context.Service<LargeAnswers, {
  readonly text: (
    integratorId: IntegratorId,
    text: string,
    options?: AnswerOptions
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, Unavailable>
  /**
   * Pulls each piece, of about {@link maxPageBytes}, once the client has read the one before. A failure after the first
   * one closes the connection.
   */
  readonly pieces: (
    integratorId: IntegratorId,
    text: TextInPieces,
    options?: AnswerOptions
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, Unavailable>
}>()("@card-rewards/api/LargeAnswers") {
  static readonly layer: Layer.Layer<LargeAnswers> = Layer.sync(LargeAnswers, () => {
    const unread = new SharedLimit(maxUnreadBytes)
    const stream = (
      integratorId: IntegratorId,
      size: number,
      body: Stream.Stream<Uint8Array, Unavailable>,
      options: AnswerOptions
    ) =>
      Effect.withFiber<HttpServerResponse.HttpServerResponse, Unavailable>((fiber) => {
        // one answer alone is never beyond the limit
        const bytes = Math.min(size, maxUnreadBytes * maxShare)
        if (!unread.take(integratorId, bytes)) return tooManyUnread
        fiber.addObserver(() => unread.giveBack(integratorId, bytes))
        return Effect.succeed(HttpServerResponse.stream(body, options))
      })
    const large = (integratorId: IntegratorId, body: Uint8Array, options: AnswerOptions) =>
      stream(integratorId, body.byteLength, Stream.succeed(body), options)
    return LargeAnswers.of({
      text: (integratorId, text, options = json) =>
        Buffer.byteLength(text) <= smallBytes
          ? Effect.succeed(HttpServerResponse.text(text, options))
          : large(integratorId, Buffer.from(text), options),
      pieces: (integratorId, { first, rest }, options = json) =>
        rest !== undefined
          // the stream keeps the first piece while it has another one
          ? stream(integratorId, 2 * maxPageBytes, Stream.concat(Stream.succeed(first), rest), options)
          : first.byteLength <= smallBytes
          ? Effect.succeed(HttpServerResponse.uint8Array(first, options))
          : large(integratorId, first, options)
    })
  })
}

const tooManyUnread = Effect.fail(
  new Unavailable({ message: "Too many large answers are being read; send the same request again" })
)
