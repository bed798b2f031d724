import type { IntegratorId } from "@card-rewards/domain/Ids"
import { compiledBytes, type ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { BrokenDefinition, CachedPrograms, mergeMetadata, metadataBytes, type VersionMetadata } from "./Catalog.ts"

/** Bytes of metadata and compiled versions, by their own estimates: of the process, and of one integrator. */
export interface CacheLimits {
  readonly bytes: number
  readonly shareBytes: number
}

export const defaultLimits: CacheLimits = { bytes: 64 * 1_048_576, shareBytes: 16 * 1_048_576 }

/**
 * Metadata and compiled versions of programs within a limit of bytes. The integrators that were unused longest lose
 * theirs first; one with more than its share loses its own. Reserved versions stay, whatever they take.
 */
export class VersionCache {
  readonly limits: CacheLimits
  /** In order of last use. */
  private readonly integrators = new Map<IntegratorId, CachedPrograms>()
  private total = 0

  constructor(limits: CacheLimits = defaultLimits) {
    this.limits = limits
  }

  /** What all entries take. */
  get bytes(): number {
    return this.total
  }

  /** An integrator's entry, made where there is none; it is the one used last from now on. */
  use(integratorId: IntegratorId): CachedPrograms {
    const known = this.integrators.get(integratorId) ?? new CachedPrograms(integratorId)
    if (!this.integrators.delete(integratorId)) this.total += known.bytes
    this.integrators.set(integratorId, known)
    return known
  }

  /** Whether an entry is in the cache, and not one that was evicted since it was used. */
  holds(entry: CachedPrograms): boolean {
    return this.integrators.get(entry.integratorId) === entry
  }

  /** Adds metadata that was read up to a revision. */
  publish(entry: CachedPrograms, revision: bigint, published: ReadonlyArray<VersionMetadata>): void {
    this.change(entry, () => {
      entry.metadata = mergeMetadata(entry.metadata, published)
      entry.metadataBytes = metadataBytes(entry.metadata)
      if (entry.revision < revision) entry.revision = revision
    })
  }

  /** Adds a version that was compiled, or could not be. */
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
    if (!this.holds(entry)) return
    this.total += entry.bytes - before
    this.evict(entry)
  }

  /** Makes room, without taking the entry that it is made for. */
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
