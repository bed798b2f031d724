import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, ProgramId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { maxPageBytes } from "@card-rewards/domain/Pagination"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { value, withinRequestDeadline } from "../Database.ts"
import { isOwned, type Owned, requireOwned } from "../Slots.ts"

/** UTF-8 text of which the first piece is read, and the others, if there are any, are read as they are pulled. */
export interface TextInPieces {
  readonly first: Uint8Array
  readonly rest?: Stream.Stream<Uint8Array, Unavailable>
}

/**
 * The JSON of `{"program": Program}` in pieces, each of at most {@link maxPageBytes} or one version. Definitions are
 * the stored bytes: no schema decodes or encodes them. Each piece is read in a statement of its own, so a slow consumer
 * holds one piece and no connection. A piece after the first one fails where the integrator has moved to another cell.
 */
export const readProgramText = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  programId: ProgramId
): Effect.fn.Return<TextInPieces, NotFound | Unavailable, SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  const read = (afterVersion: number) =>
    withinRequestDeadline(readVersions(integratorId, programId, afterVersion)).pipe(
      Effect.provideService(SqlClient.SqlClient, sql)
    )
  const rows = yield* read(0)
  const last = rows.at(-1)
  if (last === undefined) return yield* NotFound.of("program", programId)
  const begin = `{"program":{"programId":${JSON.stringify(programId)},"asset":"${last.asset}","versions":[`
  const first = encodePiece(begin, rows)
  if (last.isLast) return { first }
  return {
    first,
    rest: Stream.paginate(last.version, (version) =>
      Effect.gen(function*() {
        const following = yield* read(version)
        yield* requireOwned(following)
        const next = following.at(-1)
        return [
          [encodePiece(",", following)],
          next === undefined || next.isLast ? Option.none() : Option.some(next.version)
        ] as const
      }))
  }
})

interface Row extends Owned {
  readonly asset: Asset
  readonly version: number
  readonly effectiveFrom: number
  readonly publishedAt: number
  /** UTF-8. */
  readonly definition: Uint8Array
  readonly isLast: boolean
}

/** The versions after a number, in order, as many as a piece may have. */
const readVersions = Effect.fnUntraced(
  function*(integratorId: IntegratorId, programId: ProgramId, afterVersion: number) {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<Row>`
      SELECT p.asset, v.version, v.effective_from, v.published_at,
        convert_to(v.definition::text, 'UTF8') AS definition, v.is_last,
        ${isOwned("p.integrator_id")} AS is_owned
      FROM programs p CROSS JOIN LATERAL (
        SELECT v.*, sum(v.definition_bytes) OVER (ORDER BY v.version) AS bytes,
          lead(v.version) OVER (ORDER BY v.version) IS NULL AS is_last
        FROM program_versions v WHERE v.integrator_id = p.integrator_id AND v.program_id = p.program_id
          AND v.version > ${value.int4(afterVersion)}
      ) v
      WHERE p.integrator_id = ${integratorId} AND p.program_id = ${programId}
        AND (v.bytes <= ${value.int8(BigInt(maxPageBytes))} OR v.bytes = v.definition_bytes)
      ORDER BY v.version`
  }
)

const end = "]}}"

/** JSON without the space that PostgreSQL prints behind each colon and comma outside strings; in place. */
const withoutSpaces = (json: Uint8Array): Uint8Array => {
  let length = 0
  let inString = false
  for (let at = 0; at < json.length; at++) {
    const byte = json[at] ?? 0
    if (byte === space && !inString) continue
    json[length++] = byte
    if (byte === quote) inString = !inString
    // an escape is two bytes, of which the second may be a quote
    else if (byte === backslash) json[length++] = json[++at] ?? 0
  }
  return json.subarray(0, length)
}

const [space, quote, backslash] = [0x20, 0x22, 0x5c]

const encodePiece = (begin: string, rows: ReadonlyArray<Row>): Uint8Array =>
  Buffer.concat(rows.flatMap(({ definition, effectiveFrom, isLast, publishedAt, version }, index) => [
    Buffer.from(
      `${index === 0 ? begin : ","}{"version":${version},"effectiveFrom":"${printTimestamp(effectiveFrom)}",` +
        `"publishedAt":"${printTimestamp(publishedAt)}","definition":`
    ),
    withoutSpaces(definition),
    Buffer.from(isLast ? `}${end}` : "}")
  ]))
