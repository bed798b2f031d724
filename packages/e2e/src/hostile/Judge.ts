import type { Attack } from "./Attack.ts"
import { type Measured, recoveredWithinMillis } from "./Phases.ts"
import { type Metric, metrics } from "./Samples.ts"

/** What is promised to the innocent integrator while another one attacks: 95th percentiles in milliseconds. */
export const bounds: Readonly<Record<Metric, number>> = { post: 300, reward: 1_000, webhook: 1_500 }

/**
 * Where the machine may be slow by itself, a bound is at least so many times what was measured before the attack. It
 * grows with the time for which the service had work and no processor, and is extended by the time in which the machine
 * ran not even the innocent integrator's process.
 */
const slowMachineFactor = 4

/** As before: at most so many times what was measured then, and anything below this, in milliseconds. */
const asBeforeFactor = 3
/** With fewer posts than this the 95th percentile is the worst of all, and the median is compared instead. */
const fewPosts = 20
const asBeforeFloor: Readonly<Record<Metric, number>> = { post: 100, reward: 400, webhook: 400 }

/** Resident memory that a process may reach, in MiB. */
const maxPeakMiB = { api: 640, worker: 1_024 } as const

/** What was promised and not kept, a line each; nothing where all was. A full form is judged by the bounds alone. */
export const breaches = (attack: Attack, measured: Measured, form: "short" | "full"): ReadonlyArray<string> => {
  const { after, before, during, peakBytes, recoveryMillis, slowdown } = measured
  const refused = [...before.refused, ...during.refused, ...after.refused]
  return [
    ...measured.failures,
    ...(refused.length > 0
      ? [`${refused.length} posts of the innocent integrator got other answers: ${[...new Set(refused)].join(", ")}`]
      : []),
    ...metrics.flatMap((metric) => {
      const bound = metric === "reward" ? attack.rewardBoundMillis ?? bounds[metric] : bounds[metric]
      const slow = Math.max(bound, slowMachineFactor * before[metric].p95) * slowdown + during.stalledMillis
      const allowed = form === "short" ? slow : bound
      const was = during[metric].p95
      return was <= allowed ? [] : [`${metric} p95 was ${millis(was)} during the attack, more than ${millis(allowed)}`]
    }),
    ...(recoveryMillis === undefined ? [`not as before ${recoveredWithinMillis / 1_000} s after the attack`] : []),
    ...metrics.flatMap((metric) => {
      const asBefore = Math.max(asBeforeFloor[metric], asBeforeFactor * before[metric].p95)
      const allowed = form === "short" ? asBefore * slowdown + after.stalledMillis : asBefore + after.stalledMillis
      const was = after.posts < fewPosts ? after[metric].p50 : after[metric].p95
      if (was <= allowed) return []
      return [`${metric} took ${millis(was)} after the attack, ${millis(before[metric].p95)} before`]
    }),
    ...(["api", "worker"] as const).flatMap((name) => {
      const was = Math.round(peakBytes[name] / 2 ** 20)
      return was <= maxPeakMiB[name] ? [] : [`the ${name} reached ${was} MiB, more than ${maxPeakMiB[name]}`]
    })
  ]
}

const millis = (value: number): string => `${Math.round(value)} ms`
