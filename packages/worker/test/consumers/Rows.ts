import type { Retry } from "@card-rewards/core/Deliveries"

/** A stored event. */
export interface Event {
  readonly event: bigint
  readonly reward: bigint | null
  readonly storedAt: number
}

/** A row of `retries`. */
export interface RetryRow extends Omit<Retry, "state"> {
  state: Retry["state"] | "cancelled"
  nextAttemptAt: number | null
  attempts: number
  revision: number
}

/** A repeated delivery of the events after one and up to another, of those with a reward or of all. */
export interface Replay {
  readonly round: number
  readonly after: bigint
  readonly last: bigint
  readonly isOfRewards: boolean
}

interface Start {
  readonly generation: number
  readonly start: bigint
  readonly revision: number
  readonly round: number
}

/** A row of `webhook_endpoints`, with its replay. */
export const newEndpoint = ({ start, ...counters }: Start) => ({
  ...counters,
  replay: undefined as Replay | undefined,
  replayCursor: 0n,
  start,
  cursor: start,
  worker: undefined as string | undefined,
  token: 0n,
  workAt: undefined as number | undefined,
  failures: 0,
  probeAt: null as number | null
})

/** A delivery's key. */
export const keyOf = ({ event, round }: Pick<Retry, "event" | "round">): string => `${event}/${round}`

/** Whether a delivery comes before another one of its reward. */
export const isBefore = (one: Pick<Retry, "event" | "round">, other: Pick<Retry, "event" | "round">): boolean =>
  one.event < other.event || (one.event === other.event && one.round < other.round)
