import type { Received } from "@card-rewards/testing/WebhookReceiver"
import { workerHeader } from "./Names.ts"

/** An event's reward is its number modulo this: as many as an endpoint has slots, and some more. */
export const rewards = 24

/** A request at the receiver. */
export interface Arrival {
  readonly worker: string
  readonly integrator: string
  readonly event: number
  /** When it arrived, in milliseconds of the monotonic clock. */
  readonly at: number
  /** When the worker started the attempt, in seconds of its wall clock. */
  readonly startedAtSeconds: number
  /** What was answered; undefined before, or for no answer at all. */
  status: number | undefined
}

export const parse = ({ body, headers, path }: Received): Omit<Arrival, "status"> => ({
  worker: headers[workerHeader] ?? "",
  integrator: path.slice(1),
  event: Number(/\d+/.exec(body)?.[0]),
  at: performance.now(),
  startedAtSeconds: Number(/^t=(\d+)/.exec(headers["x-service-signature"] ?? "")?.[1])
})

/** Names an event among those of all integrators. */
export const keyOf = ({ event, integrator }: Pick<Arrival, "event" | "integrator">): string => `${integrator} ${event}`

/** How often each event has arrived. */
export const countByEvent = (arrivals: ReadonlyArray<Arrival>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const arrival of arrivals) counts.set(keyOf(arrival), (counts.get(keyOf(arrival)) ?? 0) + 1)
  return counts
}

/** The events whose first request came before the event of the same reward before them was answered with success. */
export const outOfOrder = (arrivals: ReadonlyArray<Arrival>): ReadonlyArray<string> => {
  const answered = new Set<string>()
  const early = new Set<string>()
  for (const arrival of arrivals) {
    const { event, integrator, status } = arrival
    const before = event - rewards
    if (before >= 1 && !answered.has(keyOf({ integrator, event: before }))) early.add(keyOf(arrival))
    if (status === 200) answered.add(keyOf(arrival))
  }
  return [...early]
}

/** The longest time in which none of an integrator's events arrived, of some integrators, between two times. */
export const longestGap = (
  arrivals: ReadonlyArray<Arrival>,
  integrators: ReadonlyArray<string>,
  [from, to]: readonly [number, number]
): number => {
  let longest = 0
  for (const one of integrators) {
    const own = arrivals.filter(({ at, integrator }) => integrator === one && at > from && at < to)
    let last = from
    for (const at of [...own.map((arrival) => arrival.at), to]) {
      longest = Math.max(longest, at - last)
      last = at
    }
  }
  return longest
}
