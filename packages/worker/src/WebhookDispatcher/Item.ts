import type { LinkedEntry } from "@card-rewards/core/Batcher/LinkedList"
import type { DueDelivery } from "@card-rewards/core/Deliveries"
import { type Cursor, ReplayCursor } from "./Cursor.ts"

/** A delivery in the window. */
export interface Item extends LinkedEntry<Item>, DueDelivery {
  /** The cursor that read it, and that cannot pass it before this delivery is recorded; none for a retry. */
  readonly cursor: Cursor | undefined
  /** `blocked` waits for a retry of its reward that is not in the window. */
  state: "waiting" | "blocked" | "sending" | "ended" | "recording"
  /** Names its {@link chain}. */
  readonly chainKey: number
  /** The deliveries of its reward, or of its event, in order; only the first one may be sent. */
  readonly chain: Array<Item>
}

/** The reward, or minus the event where that has none: bigints would take much longer to compare. */
export const chainKeyOf = ({ event, reward }: DueDelivery): number => Number(reward ?? -event)

/** Whether nothing but events of a replay waits for the delivery. */
export const isReplayed = ({ chain }: Item): boolean => chain.every(({ cursor }) => cursor instanceof ReplayCursor)

/** Whether a delivery comes before another one of its reward or event. */
export const isBefore = (one: DueDelivery, other: DueDelivery): boolean =>
  one.event < other.event || (one.event === other.event && one.round < other.round)
