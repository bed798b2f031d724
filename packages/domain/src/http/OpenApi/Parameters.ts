import { maxJournalExport } from "../../Journal.ts"
import { eventId, reward } from "./Values.ts"

interface Parameter {
  readonly description: string
  readonly example?: string | number
}

/** Parameters by operation and name, by place and name, or by name alone. */
export const parameters: Readonly<Record<string, Parameter>> = {
  from: { description: "The first day of the statement, in UTC.", example: "2030-01-01" },
  to: { description: "The last day of the statement, in UTC.", example: "2030-01-01" },
  "path kind": { description: "The kind of the spend event.", example: "clearing" },
  externalTransactionId: { description: "The event's own transaction id, percent-encoded.", example: "txn-1" },
  asset: { description: "The asset: `USDC` or `EURe`.", example: "USDC" },
  userId: { description: "The integrator's own id for the user, percent-encoded.", example: "user-1" },
  programId: { description: "The program's id, chosen by the integrator; without a colon.", example: "groceries-2026" },
  version: { description: "The number of the version; gaps are allowed.", example: 1 },
  name: { description: "The name of the key.", example: "server-2026" },
  id: { description: "The id of the webhook endpoint.", example: "main" },
  limit: { description: "Entries of the page; 50 by default.", example: 50 },
  "journal.list limit": {
    description: `Entries of the page, 50 by default; of an export of lines ${maxJournalExport} by default.`,
    example: 50
  },
  cursor: { description: "`next` of the previous page." },
  state: { description: "Only entries in this state." },
  after: { description: "`next` of the previous page; without it the page begins with the first one." },
  kind: { description: "Only events of this kind." },
  eventId: { description: "The event's id.", example: eventId },
  replayId: { description: "The replay's id.", example: "rpl_2" },
  rewardId: { description: "The reward's id, percent-encoded.", example: reward.id }
}
