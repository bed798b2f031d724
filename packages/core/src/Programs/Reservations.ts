import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { CachedPrograms, VersionMetadata } from "./Catalog.ts"

/** A stored event that a batch left in the queue until all these versions are compiled. */
export interface Need {
  readonly integratorId: IntegratorId
  readonly lane: number
  readonly arrival: bigint
  readonly versions: ReadonlyArray<VersionMetadata>
}

/** A place in the queue. */
type LaneKey = Pick<Need, "integratorId" | "lane">

/** The need that is loaded for an integrator next. */
export interface Reservation extends Need {
  readonly entry: CachedPrograms
  /** Needs of up to {@link lightBytes} are light: they do not wait for heavy ones. */
  readonly isLight: boolean
  readonly bytes: number
  askedAtNanos: bigint
  /** When a version was loaded for it last, as a count of loads. */
  lastLoad: number
}

/** Compiled bytes of a light need, at most. */
const lightBytes = 1_048_576

/** Compiled bytes that all light and all heavy needs reserve; one need alone may have more. */
export const reservableBytes = { light: 16 * 1_048_576, heavy: 32 * 1_048_576 }

/** A need that no batch has come across for so long is forgotten: another process took the event. */
const forgottenAfterNanos = 10_000_000_000n

/** Compiled bytes of a version that is not loaded yet, about. The greatest definitions take 330 KiB. */
export const expectedBytes = ({ definitionBytes }: VersionMetadata): number =>
  Math.min(16_384 + 2 * definitionBytes, 330 * 1_024)

/**
 * Which needs are loaded now. Each integrator has one at a time, the oldest event's: its versions stay in the cache
 * until the event is applied, so that events which need different versions do not evict each other's for ever. An
 * integrator for which there is no room waits in line, light needs and heavy ones apart.
 */
export class Reservations {
  private readonly reserved = new Map<IntegratorId, Reservation>()
  /** Integrators in line, and when they asked last. */
  private readonly line = new Map<IntegratorId, { readonly isLight: boolean; askedAtNanos: bigint }>()
  private loads = 0

  get isEmpty(): boolean {
    return this.reserved.size === 0
  }

  /**
   * Takes the outcome of a batch: the lanes that it took events from, and what it left in them for lack of versions.
   * Answers the reservations that these needs have now.
   */
  update(
    taken: ReadonlyArray<LaneKey>,
    needs: ReadonlyArray<Need>,
    entryOf: (integratorId: IntegratorId) => CachedPrograms,
    nowNanos: bigint
  ): ReadonlyArray<Reservation> {
    this.releaseDone(taken, needs, nowNanos)
    const asked: Array<Reservation> = []
    for (const [integratorId, own] of Map.groupBy(needs, (need) => need.integratorId)) {
      const known = this.reserved.get(integratorId)
      const need = known === undefined
        ? own.reduce((oldest, other) => other.arrival < oldest.arrival ? other : oldest)
        : own.find((other) => needKey(other) === needKey(known))
      const entry = entryOf(integratorId)
      if (need === undefined || !isCurrent(entry, need)) continue
      const reservation = this.reserve(entry, need, known?.lastLoad ?? this.loads, nowNanos)
      if (reservation !== undefined) asked.push(reservation)
    }
    return asked
  }

  /** Lets go of needs whose event was applied or has left its lane, and of those that nobody asks for any more. */
  private releaseDone(taken: ReadonlyArray<LaneKey>, needs: ReadonlyArray<Need>, nowNanos: bigint): void {
    for (const [integratorId, { askedAtNanos }] of this.line) {
      if (nowNanos - askedAtNanos > forgottenAfterNanos) this.line.delete(integratorId)
    }
    if (this.isEmpty) return
    const lanes = new Set(taken.map(laneKey))
    const left = new Set(needs.map(needKey))
    for (const reservation of this.reserved.values()) {
      const isDone = lanes.has(laneKey(reservation)) && !left.has(needKey(reservation))
      if (isDone || nowNanos - reservation.askedAtNanos > forgottenAfterNanos) this.release(reservation)
    }
  }

  private release({ entry, integratorId }: Reservation): void {
    this.reserved.delete(integratorId)
    entry.reserved = new Set()
  }

  private reserve(entry: CachedPrograms, need: Need, lastLoad: number, nowNanos: bigint): Reservation | undefined {
    const bytes = need.versions.reduce((sum, version) =>
      sum + (entry.compiled.get(version)?.bytes ?? expectedBytes(version)), 0)
    const isLight = bytes <= lightBytes
    const { integratorId } = need
    if (!this.reserved.has(integratorId) && !this.hasRoom(integratorId, bytes, isLight)) {
      this.line.set(integratorId, { isLight, askedAtNanos: nowNanos })
      return undefined
    }
    this.line.delete(integratorId)
    const reservation = { ...need, entry, isLight, bytes, askedAtNanos: nowNanos, lastLoad }
    this.reserved.set(integratorId, reservation)
    entry.reserved = new Set(need.versions)
    return reservation
  }

  private hasRoom(integratorId: IntegratorId, bytes: number, isLight: boolean): boolean {
    for (const [other, { isLight: otherIsLight }] of this.line) {
      if (other === integratorId) break
      if (otherIsLight === isLight) return false
    }
    const same = [...this.reserved.values()].filter((other) => other.isLight === isLight)
    const used = same.reduce((sum, other) => sum + other.bytes, 0)
    return same.length === 0 || used + bytes <= (isLight ? reservableBytes.light : reservableBytes.heavy)
  }

  /**
   * The versions to load now, `maxBytes` of JSON or one of them: one for the heavy need that was served longest ago,
   * then those of light needs, then those of heavy ones.
   */
  next(asked: ReadonlyArray<Reservation>, maxBytes: number): ReadonlyArray<readonly [CachedPrograms, VersionMetadata]> {
    const inOrder = asked.toSorted((left, right) => left.lastLoad - right.lastLoad)
    const light = inOrder.filter((reservation) => reservation.isLight)
    const heavy = inOrder.filter((reservation) => !reservation.isLight)
    const chosen = new Map<VersionMetadata, CachedPrograms>()
    let bytes = 0
    const take = (reservation: Reservation, count: number) => {
      const { entry, versions } = reservation
      const missing = versions.filter((version) => !entry.compiled.has(version) && !chosen.has(version))
      for (const version of missing.slice(0, count)) {
        if (chosen.size > 0 && bytes + version.definitionBytes > maxBytes) return
        chosen.set(version, entry)
        bytes += version.definitionBytes
        reservation.lastLoad = this.loads += 1
      }
    }
    for (const reservation of heavy.slice(0, 1)) take(reservation, 1)
    for (const reservation of [...light, ...heavy]) take(reservation, Infinity)
    return [...chosen].map(([version, entry]) => [entry, version])
  }
}

const laneKey = ({ integratorId, lane }: LaneKey): string => `${integratorId}\0${lane}`

const needKey = (need: Need): string => `${laneKey(need)}\0${need.arrival}`

/** Whether the versions are the entry's own: those of an entry that was evicted since are other objects. */
const isCurrent = ({ metadata }: CachedPrograms, { versions }: Need): boolean =>
  versions.every((version) => metadata.get(version.programId)?.byNumber.get(version.version) === version)
