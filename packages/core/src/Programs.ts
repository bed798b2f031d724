import type { NotFound, Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, ProgramId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import {
  ProgramDefinition,
  ProgramRefused,
  type ProgramSummary,
  ProgramVersionConflict,
  type ProgramVersionPublished
} from "@card-rewards/domain/Program"
import { problems } from "@card-rewards/domain/Program/Problems"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction, value, withinRequestDeadline } from "./Database.ts"
import { lockIntegrator } from "./Locks.ts"
import type { Catalog, VersionMetadata } from "./Programs/Catalog.ts"
import { readProgramText, type TextInPieces } from "./Programs/ProgramText.ts"
import type { Need } from "./Programs/Reservations.ts"
import { limitsOf } from "./Programs/VersionCache.ts"
import { makeVersions, type ProgramsRevision } from "./Programs/Versions.ts"
import { integratorTime } from "./SandboxClock.ts"

/** Reward programs and their immutable versions (contract, section 2.6; decisions, sections 3 and 4). */
export class Programs extends Context.Service<Programs, {
  /**
   * Publishes a version. A repeat with the same content is a `duplicate`, other content under the same number a
   * conflict; both are recognised before the rules are checked. A refusal lists `unknownKeyProblems`, then every broken
   * rule.
   */
  readonly publish: (
    integratorId: IntegratorId,
    programId: ProgramId,
    version: number,
    definition: ProgramDefinition,
    unknownKeyProblems: ReadonlyArray<string>
  ) => Effect.Effect<ProgramVersionPublished, ProgramRefused | ProgramVersionConflict | Unavailable>
  /**
   * All programs in order of id (code points), with their versions in ascending order, in their wire format: at most 50
   * programs with 100 versions each, whose JSON is less than 1 MiB.
   */
  readonly list: (
    integratorId: IntegratorId
  ) => Effect.Effect<ReadonlyArray<typeof ProgramSummary.Encoded>, Unavailable>
  /** `{"program": Program}` as JSON, definitions as published; see Programs/ProgramText.ts. */
  readonly get: (
    integratorId: IntegratorId,
    programId: ProgramId
  ) => Effect.Effect<TextInPieces, NotFound | Unavailable>
  /**
   * The integrators' current programs, with the compiled versions that are in memory. Runs inside the caller's
   * transaction, and reads only the metadata published since the last call, of at most `maxMetadataRows` versions.
   * Integrators beyond that limit are absent from the result; a later call returns them.
   */
  readonly catalogs: (
    integratorIds: ReadonlyArray<IntegratorId>
  ) => Effect.Effect<ReadonlyMap<IntegratorId, Catalog>, SqlError.SqlError>
  /** As {@link catalogs}, where the transaction has read the revisions. */
  readonly catalogsAt: (
    revisions: ReadonlyArray<ProgramsRevision>
  ) => Effect.Effect<ReadonlyMap<IntegratorId, Catalog>, SqlError.SqlError>
  /** Loads versions inside the caller's transaction, which holds no lock. */
  readonly ensure: (
    catalog: Catalog,
    versions: Iterable<VersionMetadata>
  ) => Effect.Effect<void, SqlError.SqlError>
  /**
   * Loads versions that deferred events need, after the transaction that deferred them: up to `maxLoadBytes` of JSON,
   * but at least one version. `decided` are the lanes of all events that the transaction decided, `deferred` those of
   * the events that it left in the queue. Returns the number of integrators that it serves now.
   */
  readonly load: (
    decided: ReadonlyArray<Pick<Need, "integratorId" | "lane">>,
    deferred: ReadonlyArray<Need>
  ) => Effect.Effect<number, Unavailable>
  /** Estimated size of the cached programs in bytes, an upper bound. */
  readonly cachedBytes: Effect.Effect<number>
}>()("@card-rewards/core/Programs") {
  static readonly layer: Layer.Layer<Programs, never, SqlClient.SqlClient> = Programs.layerOf(1)

  /** One of this number of cells, which share the memory that a process has for programs. */
  static layerOf(cells: number): Layer.Layer<Programs, never, SqlClient.SqlClient> {
    return Layer.effect(
      Programs,
      Effect.gen(function*() {
        const run = Effect.provideService(SqlClient.SqlClient, yield* SqlClient.SqlClient)
        return Programs.of({
          publish: Effect.fn("Programs.publish")(publish, run),
          list: Effect.fn("Programs.list")(list, run),
          get: Effect.fn("Programs.get")(readProgramText, run),
          ...(yield* makeVersions(limitsOf(cells)))
        })
      })
    )
  }
}

const publish = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  programId: ProgramId,
  version: number,
  definition: ProgramDefinition,
  unknownKeyProblems: ReadonlyArray<string>
) {
  const sql = yield* SqlClient.SqlClient
  const content = JSON.stringify(Schema.encodeSync(ProgramDefinition)(definition))
  const isComparable = unknownKeyProblems.length === 0 && isStorable(content)
  yield* lockIntegrator(integratorId)
  const existing = yield* readPublished(integratorId, programId, version, isComparable ? content : undefined)
  if (existing !== undefined) {
    if (existing.same !== true) return yield* conflict(programId, version)
    return answer(programId, version, existing, true)
  }
  const context = yield* readContext(integratorId, programId)
  const found = [...unknownKeyProblems, ...problems(definition, context)]
  if (found.length > 0) return yield* refused(programId, found)
  const publishedAt = value.timestamptz(context.now)
  yield* sql`INSERT INTO programs (integrator_id, program_id, asset)
    VALUES (${integratorId}, ${programId}, ${definition.asset}) ON CONFLICT DO NOTHING`
  yield* sql`INSERT INTO program_versions
    (integrator_id, program_id, version, effective_from, published_at, definition, definition_bytes, revision)
    SELECT ${integratorId}, ${programId}, ${value.int4(version)}, ${value.timestamptz(definition.effectiveFrom)},
      ${publishedAt}, d.definition, octet_length(d.definition::text), i.programs_revision + 1
    FROM integrators i CROSS JOIN (SELECT ${value.text(content)}::jsonb AS definition) d
    WHERE i.integrator_id = ${integratorId}`
  yield* sql`UPDATE integrators SET programs_revision = programs_revision + 1 WHERE integrator_id = ${integratorId}`
  return answer(programId, version, { effectiveFrom: definition.effectiveFrom, publishedAt: context.now }, false)
}, transaction)

const readPublished = Effect.fnUntraced(
  function*(integratorId: IntegratorId, programId: ProgramId, version: number, content: string | undefined) {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ effectiveFrom: number; publishedAt: number; same: boolean | null }>`
      SELECT effective_from, published_at, definition = ${value.text(content)}::jsonb AS same FROM program_versions
      WHERE integrator_id = ${integratorId} AND program_id = ${programId} AND version = ${value.int4(version)}`
    return row
  }
)

/** What the rules of a new version are checked against. */
const readContext = Effect.fnUntraced(function*(integratorId: IntegratorId, programId: ProgramId) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* integratorTime(integratorId)
  const others = yield* sql<{ count: number }>`SELECT count(*)::int AS count FROM programs
    WHERE integrator_id = ${integratorId} AND program_id <> ${programId}`
  const own = yield* sql<{ asset: Asset; count: number }>`SELECT asset, (
      SELECT count(*)::int FROM program_versions WHERE integrator_id = ${integratorId} AND program_id = ${programId}
    ) AS count
    FROM programs WHERE integrator_id = ${integratorId} AND program_id = ${programId}`
  return { now, otherPrograms: others[0]?.count ?? 0, versions: own[0] }
})

/** A program with its versions, in order: the columns of each as lists. */
interface SummaryRow {
  readonly programId: ProgramId
  readonly asset: Asset
  readonly versions: ReadonlyArray<number>
  readonly effectiveFrom: ReadonlyArray<number>
  readonly publishedAt: ReadonlyArray<number>
}

const list = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  // a row for each version would have the program's id again, up to 512 bytes of each of 5,000
  const rows = yield* sql<SummaryRow>`SELECT p.program_id, p.asset, v.versions, v.effective_from, v.published_at
    FROM programs p CROSS JOIN LATERAL (
      SELECT array_agg(version) AS versions, array_agg(effective_from) AS effective_from,
        array_agg(published_at) AS published_at
      FROM (
        SELECT * FROM program_versions v WHERE v.integrator_id = p.integrator_id AND v.program_id = p.program_id
        ORDER BY v.version
      ) v
    ) v WHERE p.integrator_id = ${integratorId} AND v.versions IS NOT NULL ORDER BY p.program_id COLLATE "C"`
  return rows.map(toSummary)
}, withinRequestDeadline)

/** jsonb can store neither NUL nor an unpaired surrogate. Only lists that must be empty can contain them. */
const isStorable = (json: string): boolean => !/(?<!\\)(\\\\)*\\u(0000|d[89a-f])/i.test(json)

const answer = (
  programId: ProgramId,
  version: number,
  { effectiveFrom, publishedAt }: { readonly effectiveFrom: number; readonly publishedAt: number },
  duplicate: boolean
): ProgramVersionPublished => ({
  programId,
  version,
  effectiveFrom: instant(effectiveFrom),
  publishedAt: instant(publishedAt),
  duplicate
})

const conflict = (programId: ProgramId, version: number) =>
  new ProgramVersionConflict({
    programId,
    version,
    message: "Other content was published under this version number; a version never changes"
  })

const refused = (programId: ProgramId, found: ReadonlyArray<string>) =>
  new ProgramRefused({ programId, problems: found, message: "The version was not published; problems lists why" })

const toSummary = (row: SummaryRow): typeof ProgramSummary.Encoded => ({
  programId: row.programId,
  asset: row.asset,
  versions: row.versions.map((version, index) => ({
    version,
    effectiveFrom: printTimestamp(row.effectiveFrom[index] ?? 0),
    publishedAt: printTimestamp(row.publishedAt[index] ?? 0)
  }))
})
