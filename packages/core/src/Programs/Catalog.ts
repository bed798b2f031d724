import { indexInForce, inOrderOfEffect } from "@card-rewards/domain/Evaluation"
import { compareCodePoints, type IntegratorId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import type { ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { Semaphore } from "effect"

/** A version without its definition. While its integrator is cached, each version has exactly one such object. */
export interface VersionMetadata {
  readonly programId: string
  readonly asset: Asset
  readonly version: number
  /** Milliseconds. */
  readonly effectiveFrom: number
  /** Bytes of the stored definition in JSON. */
  readonly definitionBytes: number
}

/** A program and the metadata of its versions. */
export interface ProgramMetadata {
  readonly programId: string
  readonly asset: Asset
  /** In order of effect. */
  readonly versions: ReadonlyArray<VersionMetadata>
  readonly byNumber: ReadonlyMap<number, VersionMetadata>
}

/** A program at an instant, with its version in force. */
export interface ProgramAt {
  readonly programId: string
  readonly version: VersionMetadata | undefined
}

/** The programs that pay in an asset, as they are from one instant until another: the same object for all between. */
export interface ProgramsAt {
  /** Milliseconds. */
  readonly from: number
  readonly until: number
  /** By programId in order of code points. */
  readonly programs: ReadonlyArray<ProgramAt>
  /** Their versions in force, in the same order. */
  readonly versions: ReadonlySet<VersionMetadata>
}

/** The metadata of an integrator's programs by programId, in order of code points. */
export type Metadata = ReadonlyMap<string, ProgramMetadata>

/** Adds versions published since to metadata. Known versions keep their objects. */
export const mergeMetadata = (known: Metadata, published: ReadonlyArray<VersionMetadata>): Metadata => {
  const merged = new Map(known)
  for (const rows of Map.groupBy(published, (row) => row.programId).values()) {
    const program = known.get(rows[0]?.programId ?? "") ?? rows[0]
    if (program === undefined) continue
    // each row has its own copy of the program's id: keep one of them
    const { asset, programId } = program
    const byNumber = new Map(known.get(programId)?.byNumber)
    for (const { definitionBytes, effectiveFrom, version } of rows) {
      if (!byNumber.has(version)) byNumber.set(version, { programId, asset, version, effectiveFrom, definitionBytes })
    }
    merged.set(programId, { programId, asset, versions: inOrderOfEffect([...byNumber.values()]), byNumber })
  }
  return new Map([...merged].toSorted(([left], [right]) => compareCodePoints(left, right)))
}

/** An upper bound of the size of metadata in bytes. */
export const metadataBytes = (metadata: Metadata): number => {
  let bytes = 512
  for (const { programId, versions } of metadata.values()) {
    bytes += 512 + 2 * programId.length + 208 * versions.length
  }
  return bytes
}

/** A definition that cannot be compiled. Events that need it fail; it is loaded again for the next retry. */
export class BrokenDefinition extends Error {
  override readonly name = "BrokenDefinition"
}

interface CachedVersion {
  readonly found: ProgramVersion | BrokenDefinition
  readonly bytes: number
}

/** The cache entry of one integrator. */
export class CachedPrograms {
  readonly integratorId: IntegratorId
  /** The `programs_revision` up to which the metadata is complete. */
  revision = 0n
  metadata: Metadata = new Map()
  metadataBytes = metadataBytes(new Map())
  /** In order of last use. */
  readonly compiled = new Map<VersionMetadata, CachedVersion>()
  compiledBytes = 0
  /** For the transactions that load versions one after another; see `Programs.ensure`. */
  readonly loading = Semaphore.makeUnsafe(1)
  /** Versions that must not be evicted, because an event waits until all of them are compiled. */
  reserved: ReadonlySet<VersionMetadata> = new Set()

  constructor(integratorId: IntegratorId) {
    this.integratorId = integratorId
  }

  get bytes(): number {
    return this.metadataBytes + this.compiledBytes
  }

  find(version: VersionMetadata): ProgramVersion | BrokenDefinition | undefined {
    const entry = this.compiled.get(version)
    if (entry === undefined) return undefined
    this.compiled.delete(version)
    // a broken definition counts 0 bytes and is loaded again the next time
    if (!(entry.found instanceof BrokenDefinition)) this.compiled.set(version, entry)
    return entry.found
  }

  /** Evicts the least recently used version. Returns the bytes that it freed, or undefined where it found none. */
  evictOne(): number | undefined {
    for (const [version, { bytes }] of this.compiled) {
      if (this.reserved.has(version)) continue
      this.compiled.delete(version)
      this.compiledBytes -= bytes
      return bytes
    }
    return undefined
  }
}

/**
 * An integrator's programs as one transaction sees them. It keeps each compiled version that it has returned, even if
 * the cache evicts the version meanwhile.
 */
export class Catalog {
  readonly entry: CachedPrograms
  readonly metadata: Metadata
  private readonly kept = new Map<VersionMetadata, ProgramVersion>()
  /** Sets of which every version is kept: the purchases of a transaction mostly need the same one. */
  private complete = new WeakSet<ReadonlySet<VersionMetadata>>()
  /** The last result of {@link at}: most purchases of a transaction are of about the same time. */
  private readonly last = new Map<Asset, ProgramsAt>()

  constructor(entry: CachedPrograms) {
    this.entry = entry
    this.metadata = entry.metadata
  }

  /** The programs that pay in an asset, at an instant. */
  at(asset: Asset, at: number): ProgramsAt {
    const last = this.last.get(asset)
    if (last !== undefined && at >= last.from && at < last.until) return last
    const programs: Array<ProgramAt> = []
    let [from, until] = [-Infinity, Infinity]
    for (const { asset: own, programId, versions } of this.metadata.values()) {
      if (own !== asset) continue
      const index = indexInForce(versions, at)
      const version = versions[index]
      from = Math.max(from, version?.effectiveFrom ?? -Infinity)
      until = Math.min(until, versions[index + 1]?.effectiveFrom ?? Infinity)
      programs.push({ programId, version })
    }
    const found = { from, until, programs, versions: new Set(programs.flatMap(({ version }) => version ?? [])) }
    this.last.set(asset, found)
    return found
  }

  version(programId: string, number: number): VersionMetadata | undefined {
    return this.metadata.get(programId)?.byNumber.get(number)
  }

  /** Whether a version is compiled; keeps it if so. Throws {@link BrokenDefinition} where it cannot be compiled. */
  has(version: VersionMetadata): boolean {
    return this.find(version) !== undefined
  }

  /** {@link has} for each of them: even where one is not compiled, the others are kept. */
  hasAll(versions: ReadonlySet<VersionMetadata>): boolean {
    if (this.complete.has(versions)) return true
    let hasAll = true
    for (const version of versions) if (!this.has(version)) hasAll = false
    if (hasAll) this.complete.add(versions)
    return hasAll
  }

  /** Returns a compiled version. Throws where {@link has} would return false. */
  compiled(version: VersionMetadata): ProgramVersion {
    const found = this.find(version)
    if (found === undefined) throw new Error(`version ${version.version} of program ${version.programId} is not loaded`)
    return found
  }

  /** Keeps a version that was compiled for this transaction. Throws {@link BrokenDefinition} where it cannot be. */
  keep(version: VersionMetadata, found: ProgramVersion | BrokenDefinition): void {
    if (found instanceof BrokenDefinition) throw found
    this.kept.set(version, found)
  }

  /** Releases the kept versions. */
  release(): void {
    this.kept.clear()
    this.complete = new WeakSet()
  }

  private find(version: VersionMetadata): ProgramVersion | undefined {
    const kept = this.kept.get(version)
    if (kept !== undefined) return kept
    const found = this.entry.find(version)
    if (found instanceof BrokenDefinition) throw found
    if (found !== undefined) this.kept.set(version, found)
    return found
  }
}
