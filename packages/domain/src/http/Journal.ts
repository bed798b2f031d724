import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { JournalPage, JournalQuery, maxJournalExport, maxJournalPage } from "../Journal.ts"
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
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "The journal: every movement of money between accounts, oldest first.") {}
