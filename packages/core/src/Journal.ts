import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { maxPageBytes } from "@card-rewards/domain/Pagination"
import { Context, Effect, Layer, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { value, withinRequestDeadline } from "./Database.ts"
import { perRow } from "./Database/PlannerHints.ts"
import { entryText, withRewardId } from "./Journal/EntryText.ts"
import { isOwned, type Owned, requireOwned } from "./Slots.ts"

/** Entries of the journal, each as JSON (domain/Journal.ts) that PostgreSQL prints, and the number of the last one. */
export interface EntryTexts {
  readonly entries: ReadonlyArray<string>
  /** `after` where there are no entries. */
  readonly next: bigint
}

type List = (
  integratorId: IntegratorId,
  query: { readonly after: bigint; readonly limit: number }
) => Effect.Effect<EntryTexts, Unavailable>

/** Exports that read at the same time: a read has a database connection for some milliseconds. */
const maxReading = 2

/** The integrator's journal. */
export class Journal extends Context.Service<Journal, {
  /**
   * The entries after a number, oldest first: at most `limit`, and at most {@link maxPageBytes} or one entry. Entries
   * are numbered under the vault's lock, in order of commit, so that a reader that follows `next` reads each once.
   * Fails where the integrator has moved to another cell: a reader of many pages would take rows that are deleted here
   * for the end of the journal.
   */
  readonly list: List
  /** The same for an export, of which two read at a time. */
  readonly listForExport: List
}>()("@card-rewards/core/Journal") {
  static readonly layer = Layer.effect(
    Journal,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const reading = yield* Semaphore.make(maxReading)
      const listed: List = Effect.fn("Journal.list")((integratorId, { after, limit }) =>
        withinRequestDeadline(list(integratorId, after, limit)).pipe(
          Effect.provideService(SqlClient.SqlClient, sql)
        )
      )
      return Journal.of({ list: listed, listForExport: (id, query) => reading.withPermit(listed(id, query)) })
    })
  )
}

/**
 * Reads as many entries as the limit allows, and cuts the page where its bytes are full: a running sum of the bytes in
 * the statement made ordinary pages 6 % slower.
 */
const list = Effect.fnUntraced(function*(integratorId: IntegratorId, after: bigint, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Owned & { readonly entry: bigint | null; readonly text: string }>`
    SELECT v.is_owned, j.entry, ${sql.literal(entryText)} AS text
    FROM (
      SELECT v.integrator_id, ${isOwned("v.integrator_id")} AS is_owned
      FROM vaults v WHERE v.integrator_id = ${integratorId} ${perRow}
    ) v LEFT JOIN LATERAL (
      SELECT * FROM journal j WHERE j.integrator_id = v.integrator_id AND j.entry > ${value.int8(after)}
      ORDER BY j.entry LIMIT ${value.int4(limit)}
    ) j ON true ${sql.literal(withRewardId)} ORDER BY j.entry`
  yield* requireOwned(rows)
  const entries: Array<string> = []
  let next = after
  let bytes = 0
  for (const { entry, text } of rows) {
    if (entry === null) break
    bytes += Buffer.byteLength(text)
    if (bytes > maxPageBytes && entries.length > 0) break
    entries.push(text)
    next = entry
  }
  return { entries, next }
})
