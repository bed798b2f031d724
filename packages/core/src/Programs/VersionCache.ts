import type { IntegratorId } from "@card-rewards/domain/Ids"
import { compiledBytes, type ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { BrokenDefinition, CachedPrograms, mergeMetadata, metadataBytes, type VersionMetadata } from "./Catalog.ts"

/** The maximum numbers of estimated bytes of metadata and compiled versions. */
export interface CacheLimits {
  /** Of all integrators. */
  readonly bytes: number
  /** Of one integrator. */
  readonly shareBytes: number
}

/** The limits of each of the cells of a process, which are those of the process divided by their number. */
export const limitsOf = (cells: number): CacheLimits => ({
  bytes: Math.floor(64 * 1_048_576 / cells),
  shareBytes: Math.floor(16 * 1_048_576 / cells)
})

/**
 * A cache of program metadata and compiled versions, limited in bytes. It evicts the least recently used integrators
 * first; an integrator above its share loses its own versions. Reserved versions are never evicted.
 */
export class VersionCache {
  readonly limits: CacheLimits
  /** In order of last use. */
  private readonly integrators = new Map<IntegratorId, CachedPrograms>()
  private total = 0

  constructor(limits: CacheLimits) {
    this.limits = limits
  }

  /** Bytes of all entries. */
  get bytes(): number {
    return this.total
  }

  /** Returns an integrator's entry, creating it if necessary, and marks it as most recently used. */
  use(integratorId: IntegratorId): CachedPrograms {
    const known = this.integrators.get(integratorId) ?? new CachedPrograms(integratorId)
    if (!this.integrators.delete(integratorId)) this.total += known.bytes
    this.integrators.set(integratorId, known)
    return known
  }

  /** Adds metadata that is complete up to a revision. */
  publish(entry: CachedPrograms, revision: bigint, published: ReadonlyArray<VersionMetadata>): void {
    this.change(entry, () => {
      entry.metadata = mergeMetadata(entry.metadata, published)
      entry.metadataBytes = metadataBytes(entry.metadata)
      if (entry.revision < revision) entry.revision = revision
    })
  }

  /** Adds a version that was compiled, or that could not be. */
  add(entry: CachedPrograms, version: VersionMetadata, found: ProgramVersion | BrokenDefinition): void {
    this.change(entry, () => {
      entry.compiledBytes -= entry.compiled.get(version)?.bytes ?? 0
      entry.compiled.delete(version)
      const bytes = found instanceof BrokenDefinition ? 0 : compiledBytes(found)
      entry.compiled.set(version, { found, bytes })
      entry.compiledBytes += bytes
    })
  }

  private change(entry: CachedPrograms, change: () => void): void {
    const before = entry.bytes
    change()
    while (entry.compiledBytes > this.limits.shareBytes && entry.evictOne() !== undefined);
    // an evicted entry no longer counts
    if (this.integrators.get(entry.integratorId) !== entry) return
    this.total += entry.bytes - before
    this.evict(entry)
  }

  /** Evicts until the limit holds; keeps the given entry itself. */
  private evict(entry: CachedPrograms): void {
    for (const candidate of this.integrators.values()) {
      while (this.total > this.limits.bytes) {
        const freed = candidate.evictOne()
        if (freed === undefined) break
        this.total -= freed
      }
      if (this.total <= this.limits.bytes) return
      if (candidate === entry || candidate.reserved.size > 0) continue
      this.integrators.delete(candidate.integratorId)
      this.total -= candidate.bytes
    }
  }
}
