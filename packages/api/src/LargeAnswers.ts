import { maxShare } from "@card-rewards/core/Batcher/FairQueue"
import type { TextInPieces } from "@card-rewards/core/Programs/ProgramText"
import { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { maxPageBytes } from "@card-rewards/domain/Pagination"
import { Effect, Stream } from "effect"
import { HttpBody, HttpServerResponse } from "effect/http"
import { json } from "./ContentTypes.ts"
import { OwnerShares } from "./Pipeline/OwnerShares.ts"

type Response = HttpServerResponse.HttpServerResponse

/** Answers up to this size go to the connection at once, and count nothing. */
const smallBytes = 65_536

/** Bytes of larger answers in memory until their clients have read them, at most; one integrator has a quarter. */
const maxUnreadBytes = 64 * maxPageBytes

/**
 * A limit on the large answers, errors too, that clients have not read. One counts, until its request's fiber ends,
 * for all integrators and for its own; an answer beyond the limit is 503.
 */
export class LargeAnswers {
  private readonly unread = new OwnerShares(maxUnreadBytes)

  /** Counts an answer, if it is large. */
  count(integratorId: IntegratorId, answer: Response): Effect.Effect<Response, Unavailable> {
    const { body } = answer
    if (body._tag === "Stream") return this.keep(integratorId, streamBytes, answer)
    if (body._tag !== "Uint8Array" || body.contentLength <= smallBytes) return Effect.succeed(answer)
    // the fiber ends at once after any other body of less than 1 MiB, read or not
    const awaited = HttpBody.raw(body.body, body)
    return this.keep(integratorId, body.contentLength, HttpServerResponse.setBody(answer, awaited))
  }

  private keep(integratorId: IntegratorId, size: number, answer: Response): Effect.Effect<Response, Unavailable> {
    return Effect.withFiber((fiber) => {
      // one answer alone is never beyond the limit
      const bytes = Math.min(size, maxUnreadBytes * maxShare)
      if (!this.unread.take(integratorId, bytes)) return tooManyUnread
      fiber.addObserver(() => this.unread.giveBack(integratorId, bytes))
      return Effect.succeed(answer)
    })
  }
}

/** A stream keeps a piece while it has another one. */
const streamBytes = 2 * maxPageBytes

/**
 * Pulls each piece, of about {@link maxPageBytes}, once the client has read the one before. A failure after the first
 * one closes the connection.
 */
export const inPieces = ({ first, rest }: TextInPieces, options = json): Response =>
  rest === undefined
    ? HttpServerResponse.uint8Array(first, options)
    : HttpServerResponse.stream(Stream.concat(Stream.succeed(first), rest), options)

const tooManyUnread = Effect.fail(
  new Unavailable({ message: "Too many large answers are being read; send the same request again" })
)
