import { compile, type ProgramVersion } from "@card-rewards/domain/Evaluation"
import { compareCodePoints, type IntegratorId } from "@card-rewards/domain/Ids"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { columns } from "../Database.ts"

/** Integrators whose compiled versions are kept; the longest unused leave first. */
export const cachedIntegrators = 2_000

interface Cached {
  readonly revision: bigint
  readonly versions: ReadonlyArray<ProgramVersion>
}

/** See `Programs.versions`. The cache is this process's; `programs_revision` says what of it still holds. */
export const makeVersions = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // in order of last use
  const cache = new Map<IntegratorId, Cached>()

  const remember = (integratorId: IntegratorId, cached: Cached) => {
    cache.delete(integratorId)
    cache.set(integratorId, cached)
    for (const oldest of cache.keys()) {
      if (cache.size <= cachedIntegrators) break
      cache.delete(oldest)
    }
  }

  /** Versions never change, so those compiled before are taken as they are. */
  const read = Effect.fnUntraced(function*(known: ReadonlyMap<IntegratorId, ReadonlyArray<ProgramVersion>>) {
    const held = [...known].flatMap(([integratorId, versions]) => versions.map((version) => ({ integratorId, ...version })))
    const rows = yield* sql<{ integratorId: IntegratorId; programId: string; version: number; definition: unknown }>`
      SELECT v.integrator_id, v.program_id, v.version, v.definition FROM program_versions v
      WHERE v.integrator_id = ANY(${columns.text([...known.keys()])})
        AND NOT EXISTS (
          SELECT FROM unnest(${columns.text(held.map((one) => one.integratorId))},
            ${columns.text(held.map((one) => one.programId))},
            ${columns.int4(held.map((one) => one.version))}) AS held (integrator_id, program_id, version)
          WHERE held.integrator_id = v.integrator_id AND held.program_id = v.program_id AND held.version = v.version)`
    const found = new Map([...known].map(([integratorId, versions]) => [integratorId, [...versions]]))
    for (const row of rows) {
      const definition = yield* Effect.orDie(decodeDefinition(row.definition))
      found.get(row.integratorId)?.push(compile(row.programId, row.version, definition))
    }
    for (const versions of found.values()) versions.sort(inOrder)
    return found
  })

  return Effect.fn("Programs.versions")(function*(integratorIds: ReadonlyArray<IntegratorId>) {
    const revisions = yield* sql<{ integratorId: IntegratorId; revision: bigint }>`
      SELECT integrator_id, programs_revision AS revision FROM integrators
      WHERE integrator_id = ANY(${columns.text(integratorIds)})`
    // what is cached is taken hold of now: other fibers change the cache while this one reads
    const current = new Map<IntegratorId, ReadonlyArray<ProgramVersion>>()
    const outdated = new Map<IntegratorId, ReadonlyArray<ProgramVersion>>()
    for (const { integratorId, revision } of revisions) {
      const cached = cache.get(integratorId)
      const target = cached?.revision === revision ? current : outdated
      target.set(integratorId, cached?.versions ?? [])
    }
    const fresh = outdated.size === 0 ? outdated : yield* read(outdated)
    const found = new Map([...current, ...fresh])
    for (const { integratorId, revision } of revisions) {
      remember(integratorId, { revision, versions: found.get(integratorId) ?? [] })
    }
    return found
  })
})

const decodeDefinition = Schema.decodeUnknownEffect(ProgramDefinition)

const inOrder = (left: ProgramVersion, right: ProgramVersion): number =>
  compareCodePoints(left.programId, right.programId) || left.version - right.version
