/** The journal and its seals, from the service or from files. */
import { JournalSealPage, maxSealPage } from "@card-rewards/domain/JournalSeal"
import { Effect, Option, Schema, Stream } from "effect"
import type { HttpClient } from "effect/http"
import { maxLineLength, readEntry } from "../ExportedEntry.ts"
import { logItems } from "../Pages.ts"
import type { ExportedSeal } from "../VerifyJournal.ts"
import type { Connection } from "./Connection.ts"
import type { Refused } from "./Exit.ts"
import { type FileUnreadable, linesOf } from "./Files.ts"
import { makeReader, type Reader, type ServiceAway, unexpected } from "./Reader.ts"

/** Entries and seals, both from the first one. */
export interface Journal {
  readonly entries: Stream.Stream<string, FileUnreadable | ServiceAway | Refused>
  readonly seals: Stream.Stream<ExportedSeal, FileUnreadable | ServiceAway | Refused>
}

/** Lines of one request: an entry has up to 5 KB, and a response must arrive within the 10 s of an attempt. */
const linesPerRequest = "1000"

/**
 * The journal as the service has it now. A seal is read before its entries are, so that none of these is too new to be
 * there.
 */
export const exportJournal = Effect.fnUntraced(function*(
  connection: Connection
): Effect.fn.Return<Journal, never, HttpClient.HttpClient> {
  const read = yield* makeReader(connection)
  return {
    entries: Stream.paginate(0n, (after: bigint) =>
      Effect.map(read("/v1/journal", { after: `${after}`, limit: linesPerRequest }, "application/x-ndjson"), (text) => {
        const lines = text.split("\n").filter((line) => line !== "")
        const end = lines.length === 0 ? undefined : readEntry(lines.at(-1))
        // what is no entry is the last line that counts: the verification finds it
        return [lines, end === undefined || "reason" in end ? Option.none() : Option.some(end.entry)]
      })),
    seals: logItems(({ after = 0n }) => readSeals(read, after))
  }
})

const readSeals = Effect.fnUntraced(function*(read: Reader, after: bigint) {
  const path = "/v1/journal/seals"
  const text = yield* read(path, { after: `${after}`, limit: `${maxSealPage}` })
  return yield* Effect.mapError(decodePage(text), () => unexpected(path))
})

const decodePage = Schema.decodeUnknownEffect(Schema.fromJsonString(JournalSealPage))

/** The entries of files: lines of an export. */
export const entriesOf = (path: string): Stream.Stream<string, FileUnreadable> => linesOf(path, maxLineLength)

/** The longest line of a file of seals: a page of 1,000 seals has a third of it. */
const maxSealLine = 1_048_576

/**
 * The seals of a file: in each line a seal, a response of `GET /v1/journal/seals/latest`, or a page of seals. What is
 * none of them is passed on as it is.
 */
export const sealsOf = (path: string): Stream.Stream<string, FileUnreadable> =>
  Stream.flattenIterable(Stream.map(linesOf(path, maxSealLine), (line) =>
    Option.match(decodeWrapped(line), {
      onNone: () => [line],
      onSome: (wrapped) => ("seals" in wrapped ? wrapped.seals : [wrapped.seal]).map((seal) => JSON.stringify(seal))
    })))

const decodeWrapped = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Union([
  Schema.Struct({ seals: Schema.Array(Schema.Json) }),
  Schema.Struct({ seal: Schema.Record(Schema.String, Schema.Json) })
])))
