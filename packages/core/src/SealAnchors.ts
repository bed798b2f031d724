import type { Unavailable } from "@card-rewards/domain/Errors"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { Sha256 } from "@card-rewards/domain/JournalSeal"
import { LogNumber } from "@card-rewards/domain/Pagination"
import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { value, withoutDeadline } from "./Database.ts"
import { perRowSql } from "./Database/PlannerHints.ts"
import { takeTime } from "./Database/SessionSettings.ts"
import { doesNotFollow, followingSeals, isOfOtherEntries, lastSeal, sealedText } from "./JournalSeals/Chain.ts"

/** The last seal of an integrator at some moment, as it is kept outside the database. */
export const SealAnchor = Schema.Struct({
  integratorId: IntegratorId,
  seal: LogNumber,
  toEntry: LogNumber,
  hash: Sha256
})
export type SealAnchor = typeof SealAnchor.Type

/** An anchor that the database contradicts. */
export interface AnchorFault {
  readonly integratorId: IntegratorId
  /** The seal that was kept. */
  readonly seal: bigint
  readonly fault: string
}

/** Integrators that one statement reads. */
const pageSize = 500

/** The anchors of one cell. */
export class SealAnchors extends Context.Service<SealAnchors, {
  /**
   * The last seals of the next integrators after one, in order of their ids, also of slots that the cell does not own;
   * `next` is undefined after the last.
   */
  readonly page: (
    after: string
  ) => Effect.Effect<{ readonly anchors: ReadonlyArray<SealAnchor>; readonly next: string | undefined }, Unavailable>
  /**
   * The anchors whose seals are missing, or differ, or up to which the journal has not the hashes of the seals. Reads
   * all entries up to them: about 6 µs for each, a seal's at a time in PostgreSQL's memory, and an integrator's in one
   * transaction.
   */
  readonly faultsOf: (anchors: ReadonlyArray<SealAnchor>) => Effect.Effect<ReadonlyArray<AnchorFault>, Unavailable>
}>()("@card-rewards/core/SealAnchors") {
  static readonly layer = Layer.effect(
    SealAnchors,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return SealAnchors.of({
        page: Effect.fn("SealAnchors.page")(page, withoutDeadline, run),
        faultsOf: Effect.fn("SealAnchors.faultsOf")((anchors) =>
          Effect.forEach(anchors, (anchor) => withoutDeadline(sql.withTransaction(faultOf(anchor)))).pipe(
            Effect.map((faults) => faults.flat()),
            run
          )
        )
      })
    })
  )
}

const page = Effect.fnUntraced(function*(after: string) {
  const sql = yield* SqlClient.SqlClient
  type Found = Omit<SealAnchor, "seal"> & { readonly seal: bigint | null }
  const rows = yield* sql<Found>`
    SELECT v.integrator_id, s.seal, s.to_entry, encode(s.hash, 'hex') AS hash
    FROM (
      SELECT integrator_id FROM vaults WHERE integrator_id > ${after} ORDER BY integrator_id
      LIMIT ${value.int4(pageSize)}
    ) v ${sql.literal(lastSeal)}
    ORDER BY v.integrator_id`
  const anchors = rows.flatMap(({ seal, ...rest }) => seal === null ? [] : [{ ...rest, seal }])
  return { anchors, next: rows.at(-1)?.integratorId }
})

/** What is wrong with an anchor, if anything. */
const faultOf = Effect.fnUntraced(function*({ hash, integratorId, seal, toEntry }: SealAnchor) {
  const sql = yield* SqlClient.SqlClient
  yield* takeTime(0)
  return yield* sql<AnchorFault>`
    SELECT t.integrator_id, t.seal, CASE WHEN s.seal IS NULL THEN 'the seal is missing'
      WHEN NOT same.seal THEN 'the seal has hash ' || encode(s.hash, 'hex') || ' and ends with entry ' || s.to_entry
      ELSE 'entries ' || b.from_entry || ' to ' || b.to_entry || ' do not make seal ' || b.seal END AS fault
    FROM (
      VALUES (${value.text(integratorId)}, ${value.int8(seal)}, ${value.int8(toEntry)},
        ${value.bytea(Buffer.from(hash, "hex"))})
    ) t (integrator_id, seal, to_entry, hash)
    LEFT JOIN journal_seals s ON s.integrator_id = t.integrator_id AND s.seal = t.seal
    CROSS JOIN LATERAL (SELECT (s.hash, s.to_entry) = (t.hash, t.to_entry) AS seal) same
    LEFT JOIN LATERAL (${sql.literal(firstBroken)}) b ON same.seal
    WHERE same.seal IS NOT TRUE OR b.seal IS NOT NULL`
})

/** SQL for the first seal up to an anchor `t` that is not what the journal and the seals before it make. */
const firstBroken = `
  SELECT c.seal, c.from_entry, c.to_entry
  FROM (${followingSeals("s.integrator_id = t.integrator_id AND s.seal <= t.seal")} ORDER BY seal) c
  CROSS JOIN LATERAL (${sealedText("c")} ${perRowSql}) sealed
  WHERE ${doesNotFollow} OR ${isOfOtherEntries} ORDER BY c.seal LIMIT 1`
