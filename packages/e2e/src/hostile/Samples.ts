/** What is measured of each of the innocent integrator's events, in milliseconds from when it was to be posted. */
export const metrics = ["post", "reward", "webhook"] as const
export type Metric = typeof metrics[number]

const accepted202 = "202"

/**
 * A line that the innocent integrator's process prints; instants are milliseconds since 1970, `answer` is its status,
 * or why there is none.
 */
export type Line =
  | { readonly kind: "intended"; readonly event: number; readonly at: number }
  | { readonly kind: "answered"; readonly event: number; readonly at: number; readonly answer: string }
  | { readonly kind: "rewarded" | "delivered"; readonly event: number; readonly at: number }
  | { readonly kind: "stalled"; readonly at: number; readonly millis: number }

/** One event from its intended post on; what is absent has not happened. */
interface Sample {
  readonly intendedAt: number
  answer?: string
  post?: number
  reward?: number
  webhook?: number
}

/** Latencies of one metric in one phase, in milliseconds. An event that is unfinished counts with its age. */
export interface Latencies {
  readonly p50: number
  readonly p95: number
  readonly max: number
  readonly unfinished: number
}

/** One phase as the innocent integrator saw it. */
export interface Summary extends Readonly<Record<Metric, Latencies>> {
  readonly posts: number
  /** The answers other than 202, and why others have none. */
  readonly refused: ReadonlyArray<string>
  /** For how long the innocent integrator's own process, which has little to do, was not run by the machine. */
  readonly stalledMillis: number
}

/** All events of a run, found by the time at which each was to be posted. */
export class Samples {
  private readonly samples: Array<Sample> = []
  private readonly stalls: Array<{ readonly at: number; readonly millis: number }> = []

  /** Lines come in order of `event` for the intended posts, in any order for the rest. */
  record(line: Line): void {
    if (line.kind === "stalled") {
      this.stalls.push(line)
      return
    }
    if (line.kind === "intended") {
      this.samples[line.event] = { intendedAt: line.at }
      return
    }
    const sample = this.samples[line.event]
    if (sample === undefined) return
    const millis = line.at - sample.intendedAt
    if (line.kind === "answered") {
      sample.answer = line.answer
      sample.post = millis
    } else if (line.kind === "rewarded") {
      sample.reward ??= millis
    } else {
      sample.webhook ??= millis
    }
  }

  /** The phase of the posts intended in `[from, to)`, as known at `now`. */
  summarize(from: number, to: number, now: number): Summary {
    const chosen = this.samples.filter(({ intendedAt }) => intendedAt >= from && intendedAt < to)
    const accepted = chosen.filter(({ answer }) => answer === accepted202)
    return {
      posts: chosen.length,
      refused: chosen.flatMap(({ answer = "no answer yet" }) => answer === accepted202 ? [] : [answer]),
      stalledMillis: this.stalls.filter(({ at }) => at >= from && at < to).reduce((sum, { millis }) => sum + millis, 0),
      post: latencies(chosen, "post", now),
      reward: latencies(accepted, "reward", now),
      webhook: latencies(accepted, "webhook", now)
    }
  }

  /** The age in milliseconds of the oldest event without its answer, reward or webhook; 0 where there is none. */
  oldestUnfinishedMillis(now: number): number {
    const oldest = this.samples.find(({ answer, post, reward, webhook }) =>
      post === undefined || answer === accepted202 && (reward === undefined || webhook === undefined))
    return oldest === undefined ? 0 : now - oldest.intendedAt
  }
}

const latencies = (samples: ReadonlyArray<Sample>, metric: Metric, now: number): Latencies => {
  const millis = samples.map((sample) => sample[metric] ?? now - sample.intendedAt).toSorted((a, b) => a - b)
  return {
    p50: percentile(millis, 0.5),
    p95: percentile(millis, 0.95),
    max: millis.at(-1) ?? 0,
    unfinished: samples.filter((sample) => sample[metric] === undefined).length
  }
}

/** The nearest rank of a sorted list; 0 of an empty one. */
const percentile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0

/** The wall clock with the resolution of `performance.now()`, the same in all processes of the machine. */
export const wallMillis = (): number => performance.timeOrigin + performance.now()
