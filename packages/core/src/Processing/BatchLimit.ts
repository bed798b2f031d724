import type { LaneKey } from "./LaneWatermarks.ts"
import { maxLanes } from "./Queue.ts"

/**
 * What a batch of several integrators may take: one that takes longer is followed by smaller ones. An integrator alone
 * has the whole step's time.
 */
export const jointMillis = 5_000

/** A batch twice as large follows one that took less than this part of its time. */
const growsBelow = 0.25

/**
 * How long one transaction must have held a vault before its integrator goes into quarantine. Until then batches pass
 * over it without waiting: it may be another worker's batch.
 */
const heldNanos = 2_000_000_000n

/** Integrators of each kind that are remembered, the latest. */
const maxRemembered = 1_000

/** A batch that was not done in time is divided into so many. */
const parts = 4

/** What a process remembers of batches that were not done in time, or waited for a vault. */
export class BatchLimit {
  /** How many lanes the next joint batch takes. */
  lanes = maxLanes
  private readonly slow = new Set<string>()
  /** Parts of batches that were not done in time, each to be a batch of its own. */
  private suspects: ReadonlyArray<ReadonlyArray<LaneKey>> = []
  private isTurnOfSuspects = false
  private readonly held = new Map<string, { readonly holder: string; readonly sinceNanos: bigint }>()

  /** A batch of these lanes was committed. */
  succeeded(lanes: ReadonlyArray<LaneKey>, tookMillis: number): void {
    for (const { integratorId } of lanes) this.slow.delete(integratorId)
    if (tookMillis < growsBelow * jointMillis) this.lanes = Math.min(maxLanes, 2 * this.lanes)
  }

  /**
   * A batch of these lanes was not done in time: the next one takes fewer, and these integrators are processed by
   * quarters, so that the slow one of them is alone in the end, however much the others have to do meanwhile.
   */
  exceeded(lanes: ReadonlyArray<LaneKey>): void {
    this.lanes = Math.max(1, Math.floor(Math.min(lanes.length, this.lanes) / parts))
    const integrators = [...Map.groupBy(lanes, ({ integratorId }) => integratorId).values()]
    const size = Math.ceil(integrators.length / parts)
    const quarters = Array.from({ length: parts }, (_, part) =>
      integrators.slice(part * size, (part + 1) * size).flat())
    this.suspects = [...this.suspects, ...quarters.filter((some) => some.length > 0)].slice(-maxRemembered)
  }

  /** In every other step, lanes of a batch that was not done in time. */
  nextSuspects(): ReadonlyArray<LaneKey> | undefined {
    this.isTurnOfSuspects = !this.isTurnOfSuspects
    if (!this.isTurnOfSuspects) return undefined
    const [first, ...others] = this.suspects
    this.suspects = others
    return first
  }

  /** Joint batches do not process this integrator any more. */
  quarantined(integratorId: string): void {
    this.suspects = this.suspects
      .map((some) => some.filter((lane) => lane.integratorId !== integratorId))
      .filter((some) => some.length > 0)
  }

  /** The lanes of integrators that will not be processed as {@link nextSuspects}. */
  withoutSuspects(lanes: ReadonlyArray<LaneKey>): ReadonlyArray<LaneKey> {
    const suspects = new Set(this.suspects.flatMap((some) => some.map(({ integratorId }) => integratorId)))
    return suspects.size === 0 ? lanes : lanes.filter(({ integratorId }) => !suspects.has(integratorId))
  }

  /**
   * An integrator alone was not done in time. Answers whether for the second time: the first may have been the
   * connection.
   */
  isSlow(integratorId: string): boolean {
    const known = this.slow.delete(integratorId)
    if (!known) this.slow.add(integratorId)
    bound(this.slow)
    return known
  }

  /** Whether the vault of one of these lanes' integrators was held when it was last asked for. */
  hasHeldVault(lanes: ReadonlyArray<LaneKey>): boolean {
    return lanes.some(({ integratorId }) => this.held.has(integratorId))
  }

  /** A transaction holds a vault. Answers whether it has been the same one for two seconds. */
  isHeldForLong(integratorId: string, holder: string, nowNanos: bigint): boolean {
    const known = this.held.get(integratorId)
    if (known?.holder === holder) return nowNanos - known.sinceNanos >= heldNanos
    this.held.delete(integratorId)
    this.held.set(integratorId, { holder, sinceNanos: nowNanos })
    bound(this.held)
    return false
  }

  /** The vaults of these integrators could be locked, or joint batches do not ask for them any more. */
  released(integratorIds: Iterable<string>): void {
    for (const integratorId of integratorIds) this.held.delete(integratorId)
  }
}

const bound = (remembered: Set<string> | Map<string, unknown>): void => {
  for (const oldest of remembered.keys()) {
    if (remembered.size <= maxRemembered) break
    remembered.delete(oldest)
  }
}
