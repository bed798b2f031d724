import type { IntegratorId } from "@card-rewards/domain/Ids"
import { type LaneKey, laneKeyOf } from "../LaneKey.ts"
import type { CachedPrograms, VersionMetadata } from "./Catalog.ts"

/** A deferred event: a batch left it in the queue until all of these versions are compiled. */
export interface Need {
  readonly integratorId: IntegratorId
  readonly lane: number
  readonly arrival: bigint
  readonly versions: ReadonlyArray<VersionMetadata>
}

/** The one need of an integrator whose versions are being loaded. */
export interface Reservation extends Need {
  readonly entry: CachedPrograms
  /** Whether the need takes at most {@link lightBytes}; light needs do not wait for heavy ones. */
  readonly isLight: boolean
  readonly bytes: number
  /** When a batch last reported the need. */
  reportedAtNanos: bigint
  /** The number of loads, over all needs, when a version was last loaded for this one. */
  lastLoad: number
}

/** The maximum number of compiled bytes of a light need. */
const lightBytes = 1_048_576

/** The maximum number of compiled bytes reserved by all light and by all heavy needs; a single need may have more. */
const reservableBytes = { light: 16 * 1_048_576, heavy: 32 * 1_048_576 }

/** A need that no batch has reported for 10 s is dropped: another process has applied the event. */
const expiresAfterNanos = 10_000_000_000n

/** Estimated compiled bytes of a version that is not loaded yet. The largest definitions take 330 KiB. */
export const expectedBytes = ({ definitionBytes }: VersionMetadata): number =>
  Math.min(16_384 + 2 * definitionBytes, 330 * 1_024)

/**
 * Decides which needs are loaded. Each integrator has one reservation at a time, for its oldest event, whose versions
 * stay in the cache until the event is applied: otherwise events that need different versions could evict each other's
 * forever. Integrators for which there is no room wait in a queue, light and heavy needs separately.
 */
export class Reservations {
  private readonly reserved = new Map<IntegratorId, Reservation>()
  /** Waiting integrators, and when a batch last reported their need. */
  private readonly waiting = new Map<IntegratorId, { readonly isLight: boolean; reportedAtNanos: bigint }>()
  private loads = 0

  get isEmpty(): boolean {
    return this.reserved.size === 0
  }

  /**
   * Updates the reservations after a batch: `decided` are the lanes of the events that it decided, `needs` the events
   * that it deferred. Returns the reservations of these needs.
   */
  update(
    decided: ReadonlyArray<LaneKey>,
    needs: ReadonlyArray<Need>,
    entryOf: (integratorId: IntegratorId) => CachedPrograms,
    nowNanos: bigint
  ): ReadonlyArray<Reservation> {
    this.releaseDone(decided, needs, nowNanos)
    const reservations: Array<Reservation> = []
    for (const [integratorId, own] of Map.groupBy(needs, (need) => need.integratorId)) {
      const known = this.reserved.get(integratorId)
      const need = known === undefined
        ? own.reduce((oldest, other) => other.arrival < oldest.arrival ? other : oldest)
        : own.find((other) => needKey(other) === needKey(known))
      const entry = entryOf(integratorId)
      if (need === undefined || !isCurrent(entry, need)) continue
      const reservation = this.reserve(entry, need, known?.lastLoad ?? this.loads, nowNanos)
      if (reservation !== undefined) reservations.push(reservation)
    }
    return reservations
  }

  /**
   * The versions to load next, up to `maxBytes` of JSON but at least one: first one version of the heavy need that was
   * served least recently, then the versions of light needs, then those of heavy needs.
   */
  next(
    reservations: ReadonlyArray<Reservation>,
    maxBytes: number
  ): ReadonlyArray<readonly [CachedPrograms, VersionMetadata]> {
    const inOrder = reservations.toSorted((left, right) => left.lastLoad - right.lastLoad)
    const light = inOrder.filter((reservation) => reservation.isLight)
    const heavy = inOrder.filter((reservation) => !reservation.isLight)
    const chosen = new Map<VersionMetadata, CachedPrograms>()
    let bytes = 0
    const choose = (reservation: Reservation, count: number) => {
      const { entry, versions } = reservation
      const missing = versions.filter((version) => !entry.compiled.has(version) && !chosen.has(version))
      for (const version of missing.slice(0, count)) {
        if (chosen.size > 0 && bytes + version.definitionBytes > maxBytes) return
        chosen.set(version, entry)
        bytes += version.definitionBytes
        reservation.lastLoad = this.loads += 1
      }
    }
    for (const reservation of heavy.slice(0, 1)) choose(reservation, 1)
    for (const reservation of [...light, ...heavy]) choose(reservation, Infinity)
    return [...chosen].map(([version, entry]) => [entry, version])
  }

  /** Releases reservations whose event is no longer deferred, and those that have expired. */
  private releaseDone(decided: ReadonlyArray<LaneKey>, needs: ReadonlyArray<Need>, nowNanos: bigint): void {
    for (const [integratorId, { reportedAtNanos }] of this.waiting) {
      if (nowNanos - reportedAtNanos > expiresAfterNanos) this.waiting.delete(integratorId)
    }
    if (this.isEmpty) return
    const lanes = new Set(decided.map(laneKeyOf))
    const left = new Set(needs.map(needKey))
    for (const reservation of this.reserved.values()) {
      const isDone = lanes.has(laneKeyOf(reservation)) && !left.has(needKey(reservation))
      if (isDone || nowNanos - reservation.reportedAtNanos > expiresAfterNanos) this.release(reservation)
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
      this.waiting.set(integratorId, { isLight, reportedAtNanos: nowNanos })
      return undefined
    }
    this.waiting.delete(integratorId)
    const reservation = { ...need, entry, isLight, bytes, reportedAtNanos: nowNanos, lastLoad }
    this.reserved.set(integratorId, reservation)
    entry.reserved = new Set(need.versions)
    return reservation
  }

  private hasRoom(integratorId: IntegratorId, bytes: number, isLight: boolean): boolean {
    for (const [other, { isLight: otherIsLight }] of this.waiting) {
      if (other === integratorId) break
      if (otherIsLight === isLight) return false
    }
    const same = [...this.reserved.values()].filter((other) => other.isLight === isLight)
    const used = same.reduce((sum, other) => sum + other.bytes, 0)
    return same.length === 0 || used + bytes <= (isLight ? reservableBytes.light : reservableBytes.heavy)
  }
}

const needKey = (need: Need): string => `${laneKeyOf(need)}\0${need.arrival}`

/** Whether the versions belong to this entry, and not to an earlier one of the integrator that was evicted. */
const isCurrent = ({ metadata }: CachedPrograms, { versions }: Need): boolean =>
  versions.every((version) => metadata.get(version.programId)?.byNumber.get(version.version) === version)
