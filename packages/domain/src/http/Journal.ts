import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { NotFound } from "../Errors.ts"
import { JournalPage, JournalQuery, maxJournalExport, maxJournalPage } from "../Journal.ts"
import { JournalSeal, JournalSealPage, JournalSealQuery, maxSealPage } from "../JournalSeal.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

/** The journal of all movements of money, for integrators that keep books of their own. */
export class Journal extends HttpApiGroup.make("journal").add(
  HttpApiEndpoint.get("list", "/v1/journal", {
    query: JournalQuery,
    success: JournalPage
  }).annotateMerge(OpenApi.annotations({
    summary: "Read the journal",
    description: "The entries after the number `after`, oldest first: at most `limit`, " +
      `up to ${maxJournalPage}, and at most 1 MiB or one entry. \`next\` is always present: pass it as ` +
      "`after`, and you read every entry exactly once. Only an empty page is the last one. With " +
      "`Accept: application/x-ndjson` the entries are lines without `next`, " +
      `up to ${maxJournalExport} of them: go on after the \`entry\` of the last one.`
  })),
  HttpApiEndpoint.get("seals", "/v1/journal/seals", {
    query: JournalSealQuery,
    success: JournalSealPage
  }).annotateMerge(OpenApi.annotations({
    summary: "Read the seals of the journal",
    description: `The seals after the number \`after\`, oldest first: at most \`limit\`, up to ${maxSealPage}. ` +
      "New entries are sealed within a minute. `next` is always present: pass it as `after`, and you read every seal " +
      "exactly once. Only an empty page is the last one."
  })),
  HttpApiEndpoint.get("latestSeal", "/v1/journal/seals/latest", {
    success: Schema.Struct({ seal: JournalSeal }).annotate({ description: "The seal." }),
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Read the latest seal",
    description: "The last seal of the journal; 404 before the first one. Its `hash` is proof of all entries up to " +
      "`toEntry`: keep it elsewhere."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "The journal: every movement of money between accounts, oldest first.") {}
