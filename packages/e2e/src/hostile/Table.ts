import type { Measured } from "./Phases.ts"
import type { Metric, Summary } from "./Samples.ts"

const head = [
  "attack",
  "post p95",
  "reward p95",
  "webhook p95",
  "not 202",
  "worst post, reward, webhook",
  "recovered",
  "peak worker, api",
  "slowdown by others",
  "the attacker's own work"
]

/** The measurements in Markdown: 95th percentiles before, during and after each attack. */
export const print = (measurements: ReadonlyArray<Measured>): string =>
  [row(head), row(head.map(() => "---")), ...measurements.map((measured) => row(cells(measured)))].join("\n")

const row = (texts: ReadonlyArray<string>): string => `| ${texts.join(" | ")} |`

const cells = (measured: Measured): ReadonlyArray<string> => {
  const { after, before, during, peakBytes, recoveryMillis, slowdown } = measured
  const of = (metric: Metric) => [before, during, after].map((summary) => latency(summary, metric)).join(" → ")
  const refused = [before, during, after].flatMap((summary) => summary.refused)
  const worst = [during.post.max, during.reward.max, during.webhook.max].map(duration).join(", ")
  return [
    `${measured.attack}: ${measured.what}`,
    of("post"),
    of("reward"),
    of("webhook"),
    `${refused.length} of ${before.posts + during.posts + after.posts}`,
    worst,
    recoveryMillis === undefined ? "**no**" : duration(recoveryMillis),
    `${mebibytes(peakBytes.worker)}, ${mebibytes(peakBytes.api)}`,
    slowdown.toFixed(1),
    [...measured.figures, ...measured.failures.map((failure) => `**${failure}**`)].join("; ")
  ]
}

/** Events that are unfinished count with their age, so the true latency is greater. */
const latency = (summary: Summary, metric: Metric): string => {
  const { p95, unfinished } = summary[metric]
  return unfinished === 0 ? duration(p95) : `≥ ${duration(p95)} (${unfinished} unfinished)`
}

const duration = (millis: number): string =>
  millis < 1_000 ? `${Math.round(millis)} ms` : `${(millis / 1_000).toFixed(1)} s`

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`
