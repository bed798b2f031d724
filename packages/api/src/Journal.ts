import { millisLeft } from "@card-rewards/core/Database"
import type { EntryTexts, Journal } from "@card-rewards/core/Journal"
import { InvalidRequest, Unavailable } from "@card-rewards/domain/Errors"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { maxJournalExport, maxJournalPage } from "@card-rewards/domain/Journal"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect, Option, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { json, prefers } from "./ContentTypes.ts"
import { forIntegrator } from "./ForIntegrator.ts"
import { inPieces } from "./LargeAnswers.ts"

const lines = { contentType: "application/x-ndjson" }

/** The journal, by pages of JSON or as an export of lines, and its seals. An integrator has one export at a time. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "journal",
  (handlers) => {
    const exporting = new Set<IntegratorId>()
    return handlers.handle("list", ({ query: { after = 0n, limit }, request }) =>
      forIntegrator(Effect.fnUntraced(function*(id, { journal }) {
        if (!prefers(request, lines.contentType)) {
          const { entries, next } = yield* readPage(journal, id, after, limit)
          return HttpServerResponse.text(`{"entries":[${entries.join(",")}],"next":"${next}"}`, json)
        }
        yield* enter(exporting, id)
        const read = (from: bigint, left: number) =>
          Effect.map(
            journal.listForExport(id, { after: from, limit: Math.min(left, maxJournalPage) }),
            pieceOf(left)
          )
        const first = yield* Effect.timeoutOrElse(read(after, limit ?? maxJournalExport), {
          duration: yield* millisLeft,
          orElse: () => tooManyExports
        })
        const { rest } = first
        return inPieces({
          first: first.text,
          ...(rest === undefined ? {} : { rest: Stream.paginate(rest, ({ after, left }) =>
            Effect.map(read(after, left), ({ rest, text }) => [[text], Option.fromUndefinedOr(rest)])) })
        }, lines)
      })))
      .handle("seals", ({ query: { after = 0n, limit = defaultPageSize } }) =>
        forIntegrator((id, { journalSeals }) => journalSeals.list(id, { after, limit })))
      .handle("latestSeal", () =>
        forIntegrator((id, { journalSeals }) => Effect.map(journalSeals.latest(id), (seal) => ({ seal }))))
  }
)

const readPage = (journal: Journal["Service"], id: IntegratorId, after: bigint, limit = defaultPageSize) =>
  limit > maxJournalPage
    ? Effect.fail(
      new InvalidRequest({ part: "query", message: `limit: expected an integer from 1 to ${maxJournalPage}` })
    )
    : journal.list(id, { after, limit })

/** Counts the integrator's export until the request's fiber ends, which is when its answer is written. */
const enter = (exporting: Set<IntegratorId>, id: IntegratorId) =>
  Effect.withFiber<void, Unavailable>((fiber) => {
    if (exporting.has(id)) return alreadyExporting
    exporting.add(id)
    fiber.addObserver(() => exporting.delete(id))
    return Effect.void
  })

const alreadyExporting = Effect.fail(
  new Unavailable({ message: "An export of your journal is running; send the same request again" })
)

const tooManyExports = Effect.fail(
  new Unavailable({ message: "Too many journals are being exported; send the same request again" })
)

/** The text of some lines, and where the export goes on. */
const pieceOf = (left: number) => ({ entries, next }: EntryTexts) => ({
  text: Buffer.from(entries.map((entry) => `${entry}\n`).join("")),
  rest: entries.length === 0 || entries.length === left ? undefined : { after: next, left: left - entries.length }
})
