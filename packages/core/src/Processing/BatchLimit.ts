import { LRUCache } from "lru-cache"
import type { LaneKey } from "../LaneKey.ts"
import { maxLanes } from "./Queue.ts"

/**
 * Deadline in milliseconds of a joint batch, which has events of several integrators. A batch that exceeds it is
 * followed by smaller ones. A batch of one integrator has the deadline of a background step.
 */
export const jointMillis = 5_000

/** Where a batch took less than this part of its deadline, the next one may have twice as many lanes. */
const growsBelow = 0.25

/**
 * How long one transaction must have kept a vault locked before its integrator goes into quarantine. Until then batches
 * skip the integrator: the transaction may be another worker's batch.
 */
const lockedNanos = 2_000_000_000n

/** The maximum number of entries that each collection of a {@link BatchLimit} keeps: the most recent ones. */
const maxRemembered = 1_000

/** The number of parts that a batch is divided into after it exceeded its deadline. */
const splitInto = 4

/** A process's record of batches that exceeded their deadline or waited for a vault's lock. */
export class BatchLimit {
  /** The maximum number of lanes of the next joint batch. */
  lanes = maxLanes
  private readonly slow = new LRUCache<string, true>({ max: maxRemembered })
  /** The lanes of integrators whose batch exceeded its deadline, in parts; each part will be a batch of its own. */
  private suspects: ReadonlyArray<ReadonlyArray<LaneKey>> = []
  private areSuspectsNext = true
  private readonly locked = new LRUCache<string, { readonly holder: string; readonly sinceNanos: bigint }>({
    max: maxRemembered
  })

  /** Records how long a step took whose batches were committed. */
  recordDuration(tookMillis: number): void {
    if (tookMillis < growsBelow * jointMillis) this.lanes = Math.min(maxLanes, 2 * this.lanes)
  }

  /** Records of which integrators a committed batch decided events: it could lock their vaults, and was in time. */
  recordServed(integratorIds: ReadonlyArray<string>): void {
    for (const integratorId of integratorIds) this.slow.delete(integratorId)
    this.forgetLocked(integratorIds)
  }

  /**
   * Records that a batch of these lanes exceeded its deadline. The next batch takes fewer lanes, and these integrators
   * are processed in quarters, so that the slow one is alone after a few steps, however much work the others have.
   */
  recordExceeded(lanes: ReadonlyArray<LaneKey>): void {
    this.lanes = Math.max(1, Math.floor(Math.min(lanes.length, this.lanes) / splitInto))
    const integrators = [...Map.groupBy(lanes, ({ integratorId }) => integratorId).values()]
    const size = Math.ceil(integrators.length / splitInto)
    const quarters = Array.from({ length: splitInto }, (_, part) =>
      integrators.slice(part * size, (part + 1) * size).flat())
    this.suspects = [...this.suspects, ...quarters.filter((some) => some.length > 0)].slice(-maxRemembered)
  }

  /** In every other step, one part of a batch that exceeded its deadline; otherwise undefined. */
  nextSuspects(): ReadonlyArray<LaneKey> | undefined {
    const areNext = this.areSuspectsNext
    this.areSuspectsNext = !areNext
    if (!areNext) return undefined
    const [first, ...others] = this.suspects
    this.suspects = others
    return first
  }

  /** Removes an integrator that went into quarantine: joint batches do not process it. */
  removeSuspect(integratorId: string): void {
    this.suspects = this.suspects
      .map((some) => some.filter((lane) => lane.integratorId !== integratorId))
      .filter((some) => some.length > 0)
  }

  /** The lanes of integrators that are not among the suspects, which {@link nextSuspects} returns. */
  withoutSuspects(lanes: ReadonlyArray<LaneKey>): ReadonlyArray<LaneKey> {
    const suspects = new Set(this.suspects.flatMap((some) => some.map(({ integratorId }) => integratorId)))
    return suspects.size === 0 ? lanes : lanes.filter(({ integratorId }) => !suspects.has(integratorId))
  }

  /**
   * Records that an integrator's own batch exceeded its deadline. Returns whether that was the second time in a row:
   * the cause of the first may have been the connection.
   */
  recordSlow(integratorId: string): boolean {
    const known = this.slow.delete(integratorId)
    if (!known) this.slow.set(integratorId, true)
    return known
  }

  /** Whether another transaction had locked the vault of one of these integrators when a batch last tried. */
  hasLockedVault(lanes: ReadonlyArray<LaneKey>): boolean {
    return lanes.some(({ integratorId }) => this.locked.has(integratorId))
  }

  /** Records which transaction has locked a vault. Returns whether it has been the same one for {@link lockedNanos}. */
  recordLocked(integratorId: string, holder: string, nowNanos: bigint): boolean {
    const known = this.locked.get(integratorId)
    if (known?.holder === holder) return nowNanos - known.sinceNanos >= lockedNanos
    this.locked.set(integratorId, { holder, sinceNanos: nowNanos })
    return false
  }

  /** Forgets the locked vaults of integrators. */
  forgetLocked(integratorIds: Iterable<string>): void {
    for (const integratorId of integratorIds) this.locked.delete(integratorId)
  }
}
