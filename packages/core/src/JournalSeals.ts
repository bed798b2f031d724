import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { JournalSeal } from "@card-rewards/domain/JournalSeal"
import { instant } from "@card-rewards/domain/Time"
import { Context, Effect, Layer } from "effect"
import { Hex } from "effect/encoding"
import { SqlClient } from "effect/sql"
import { value, withinRequestDeadline } from "./Database.ts"
import type { Row } from "./Database/Table.ts"
import * as Sealing from "./JournalSeals/Sealing.ts"
import * as Tables from "./Tables.ts"
import * as Tracing from "./Tracing.ts"

export { SealPauseMillis } from "./JournalSeals/Sealing.ts"

/** Seals, oldest first, and the number of the last one. */
export interface SealPage {
  readonly seals: ReadonlyArray<JournalSeal>
  /** `after` where there are no seals. */
  readonly next: bigint
}

/** The hash chain over each integrator's journal (domain/JournalSeal.ts). */
export class JournalSeals extends Context.Service<JournalSeals, {
  /** The integrator's seals after a number, oldest first, at most `limit`; one is less than 300 bytes of JSON. */
  readonly list: (
    integratorId: IntegratorId,
    query: { readonly after: bigint; readonly limit: number }
  ) => Effect.Effect<SealPage, Unavailable>
  /** The integrator's last seal. */
  readonly latest: (integratorId: IntegratorId) => Effect.Effect<JournalSeal, NotFound | Unavailable>
  /**
   * Does a bounded part of a pass over all vaults: finds those with new entries among the next 1,000, or seals at most
   * 10,000 entries of those it has found. Returns false where a pass is complete that had enough turns for all of them.
   * Any number of processes may do so at once: a seal that two of them make is stored once.
   */
  readonly sealNext: Effect.Effect<boolean, Unavailable>
}>()("@card-rewards/core/JournalSeals") {
  static readonly layer = Layer.effect(
    JournalSeals,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return JournalSeals.of({
        list: Effect.fn("JournalSeals.list")(list, withinRequestDeadline, run),
        latest: Effect.fn("JournalSeals.latest")(latest, withinRequestDeadline, run),
        sealNext: Sealing.make().pipe(run, Tracing.deferSpan("JournalSeals.sealNext"))
      })
    })
  )
}

const list = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  { after, limit }: { readonly after: bigint; readonly limit: number }
) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Row<typeof Tables.journalSeals>>`
    SELECT ${Tables.journalSeals.of("s")} FROM journal_seals s
    WHERE s.integrator_id = ${integratorId} AND s.seal > ${value.int8(after)}
    ORDER BY s.seal LIMIT ${value.int4(limit)}`
  return { seals: rows.map(sealOf), next: rows.at(-1)?.seal ?? after }
})

const latest = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Row<typeof Tables.journalSeals>>`
    SELECT ${Tables.journalSeals.of("s")} FROM journal_seals s
    WHERE s.integrator_id = ${integratorId} ORDER BY s.seal DESC LIMIT 1`
  if (row !== undefined) return sealOf(row)
  return yield* new NotFound({ resource: "seal", id: "latest", message: "Nothing is sealed yet" })
})

const sealOf = ({ fromEntry, hash, previousHash, seal, sealedAt, toEntry }: Row<typeof Tables.journalSeals>) => ({
  seal,
  fromEntry,
  toEntry,
  at: instant(sealedAt),
  previousHash: Hex.encode(previousHash),
  hash: Hex.encode(hash)
})
