import type { IntegratorId } from "@card-rewards/domain/Ids"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { compile, type ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { Cause, Clock, Effect, Schema, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { backgroundStep, columns } from "../Database.ts"
import * as Tracing from "../Tracing.ts"
import { BrokenDefinition, type CachedPrograms, Catalog, type VersionMetadata } from "./Catalog.ts"
import { type Need, Reservations } from "./Reservations.ts"
import { type CacheLimits, VersionCache } from "./VersionCache.ts"

/** The maximum number of bytes of JSON that one statement reads to compile, unless a single version has more. */
export const maxLoadBytes = 1_048_576

/** The maximum number of versions whose metadata one transaction reads, unless the first integrator has more. */
const maxMetadataRows = 20_000

/** How often programs of an integrator have been published, as a transaction has read it. */
export interface ProgramsRevision {
  readonly integratorId: IntegratorId
  readonly programsRevision: bigint
}

type Wanted = ReadonlyArray<readonly [CachedPrograms, VersionMetadata]>

/**
 * The process's cache of programs: see `Programs.catalogs` and `Programs.load`. `ensure` reads versions inside the
 * caller's transaction, for callers that hold no lock.
 */
export const makeVersions = Effect.fnUntraced(function*(limits: CacheLimits) {
  const sql = yield* SqlClient.SqlClient
  const cache = new VersionCache(limits)
  const reservations = new Reservations()
  const loading = yield* Semaphore.make(1)

  const { readDefinitions, readMetadata } = readInto(cache, sql)

  const catalogs = Effect.fn("Programs.catalogs")(function*(integratorIds: ReadonlyArray<IntegratorId>) {
    return yield* catalogsAt(yield* sql<ProgramsRevision>`
      SELECT integrator_id, programs_revision FROM integrators
      WHERE integrator_id = ANY(${columns.text(integratorIds)})`)
  })

  const catalogsAt = Effect.fnUntraced(function*(revisions: ReadonlyArray<ProgramsRevision>) {
    const entries = revisions.map(({ integratorId, programsRevision: revision }) =>
      ({ entry: cache.use(integratorId), revision }))
    const outdated = new Map<CachedPrograms, bigint>()
    let rows = 0
    for (const { entry, revision } of entries) {
      const published = Number(revision - entry.revision)
      if (published <= 0 || (outdated.size > 0 && rows + published > maxMetadataRows)) continue
      outdated.set(entry, revision)
      rows += published
    }
    if (outdated.size > 0) yield* readMetadata(outdated)
    return new Map(entries.flatMap(({ entry, revision }) =>
      entry.revision < revision ? [] : [[entry.integratorId, new Catalog(entry)] as const]
    ))
  })

  const load = Effect.fnUntraced(function*(
    decided: ReadonlyArray<Pick<Need, "integratorId" | "lane">>,
    needs: ReadonlyArray<Need>
  ) {
    if (needs.length === 0 && reservations.isEmpty) return 0
    const now = yield* Clock.monotonicTimeNanos
    const reserved = reservations.update(decided, needs, (integratorId) => cache.use(integratorId), now)
    if (reserved.length === 0) return 0
    return yield* Effect.gen(function*() {
      const wanted = reservations.next(reserved, maxLoadBytes)
      if (wanted.length > 0) yield* readDefinitions(wanted)
      return reserved.length
    }).pipe(backgroundStep, loading.withPermit, Tracing.startDeferred(() => []))
  })

  const ensure = ensureBy(readDefinitions)

  return { catalogs, catalogsAt, load, ensure, cachedBytes: Effect.sync(() => cache.bytes) }
})

/**
 * Transactions of one integrator load one after another. Each would use all of the time that the event loop has: four
 * at once, of quotes that each need 11 MB of definitions, delayed the requests of other integrators by 0.2 s. While one
 * hangs on a half-open connection, those of its integrator that need versions which are not compiled are answered 503
 * at their own deadlines: an earlier answer would only be repeated, and find the same.
 */
const ensureBy = (readDefinitions: ReturnType<typeof readInto>["readDefinitions"]) => {
  const loadMissing = Effect.fnUntraced(function*(catalog: Catalog, versions: ReadonlyArray<VersionMetadata>) {
    let chunk: Array<VersionMetadata> = []
    let bytes = 0
    const read = Effect.suspend(() => {
      const wanted = chunk.map((version) => [catalog.entry, version] as const)
      return readDefinitions(wanted, (version, found) => catalog.keep(version, found))
    })
    for (const version of versions) {
      // the transaction before may have loaded it
      if (catalog.has(version)) continue
      if (chunk.length > 0 && bytes + version.definitionBytes > maxLoadBytes) {
        yield* read
        chunk = []
        bytes = 0
      }
      chunk.push(version)
      bytes += version.definitionBytes
    }
    if (chunk.length > 0) yield* read
  })

  return Effect.fnUntraced(function*(catalog: Catalog, versions: Iterable<VersionMetadata>) {
    const missing = [...versions].filter((version) => !catalog.has(version))
    if (missing.length > 0) yield* catalog.entry.loading.withPermit(loadMissing(catalog, missing))
  })
}

/** Statements that read into the cache. */
const readInto = (cache: VersionCache, sql: SqlClient.SqlClient) => {
  const readMetadata = Effect.fnUntraced(function*(outdated: ReadonlyMap<CachedPrograms, bigint>) {
    const entries = [...outdated.keys()]
    const rows = yield* sql<VersionMetadata & { integratorId: IntegratorId }>`
      SELECT v.integrator_id, v.program_id, p.asset, v.version, v.effective_from, v.definition_bytes
      FROM unnest(${columns.text(entries.map((entry) => entry.integratorId))},
        ${columns.int8(entries.map((entry) => entry.revision))}) AS t(integrator_id, revision)
      JOIN program_versions v ON v.integrator_id = t.integrator_id AND v.revision > t.revision
      JOIN programs p ON p.integrator_id = v.integrator_id AND p.program_id = v.program_id`
    const byIntegrator = Map.groupBy(rows, (row) => row.integratorId)
    for (const [entry, revision] of outdated) {
      cache.publish(entry, revision, byIntegrator.get(entry.integratorId) ?? [])
    }
  })

  /** `keep` is called with each version, which the cache may evict at once. */
  const readDefinitions = Effect.fnUntraced(function*(
    wanted: Wanted,
    keep: (version: VersionMetadata, found: ProgramVersion | BrokenDefinition) => void = () => {}
  ) {
    const rows = yield* sql<{ position: number; definition: unknown }>`
      SELECT t.position::int AS position, v.definition
      FROM unnest(${columns.text(wanted.map(([entry]) => entry.integratorId))},
        ${columns.text(wanted.map(([, version]) => version.programId))},
        ${columns.int4(wanted.map(([, version]) => version.version))})
        WITH ORDINALITY AS t(integrator_id, program_id, version, position)
      JOIN program_versions v ON v.integrator_id = t.integrator_id AND v.program_id = t.program_id
        AND v.version = t.version`
    for (const { definition, position } of rows) {
      const [entry, version] = wanted[position - 1] ?? []
      if (entry === undefined || version === undefined) continue
      const found = yield* compileStored(entry.integratorId, version, definition)
      cache.add(entry, version, found)
      keep(version, found)
      // compiling a large definition blocks the event loop for several milliseconds
      yield* Effect.yieldNow
    }
  })

  return { readMetadata, readDefinitions }
}

const compileStored = (
  integratorId: IntegratorId,
  { programId, version }: VersionMetadata,
  definition: unknown
): Effect.Effect<ProgramVersion | BrokenDefinition> =>
  Effect.matchCause(Effect.map(decodeDefinition(definition), (decoded) => compile(programId, version, decoded)), {
    onSuccess: (compiled) => compiled,
    // the error itself would retain the whole definition
    onFailure: (cause) => {
      const reason = `${Cause.squash(cause)}`.slice(0, maxReasonLength)
      return new BrokenDefinition(`Version ${version} of program ${programId} of ${integratorId} is broken: ${reason}`)
    }
  })

const maxReasonLength = 300

const decodeDefinition = Schema.decodeUnknownEffect(ProgramDefinition)
