import { Effect, Schema } from "effect"

/** How much a run does. `small` proves that everything works; its figures mean nothing. */
export interface Size {
  readonly name: "small" | "full"
  /** How often each contestant's turn comes. */
  readonly rounds: number
  /** How long a turn under load lasts. */
  readonly turnMillis: number
  /** How long each contestant is driven before the first turn that counts. */
  readonly warmUpMillis: number
  /** And by how many requests at least, so that everything is compiled. */
  readonly warmUpRequests: number
  readonly users: number
  /** Stored events that a turn of processing works off. */
  readonly backlog: number
  /** Steps of the growth measure, in stored events. */
  readonly growth: ReadonlyArray<number>
  readonly programs: number
  readonly versions: number
  /** Integrators that share what one has, in the measure of many. */
  readonly integrators: number
  /** How long the memory of processes is watched. */
  readonly memoryMillis: number
  /** Stored events that wait, in two backlogs whose memory is compared. */
  readonly memoryBacklogs: readonly [small: number, large: number]
  /** How long a transaction is held open. */
  readonly heldMillis: number
  /** How long a turn of the measure of latencies lasts. */
  readonly latencyMillis: number
}

export const sizes: Readonly<Record<Size["name"], Size>> = {
  small: {
    name: "small",
    rounds: 1,
    turnMillis: 200,
    warmUpMillis: 50,
    warmUpRequests: 1,
    users: 100,
    backlog: 200,
    growth: [100, 300],
    programs: 2,
    versions: 2,
    integrators: 5,
    memoryMillis: 500,
    memoryBacklogs: [100, 500],
    heldMillis: 300,
    latencyMillis: 500
  },
  full: {
    name: "full",
    rounds: 5,
    turnMillis: 5_000,
    warmUpMillis: 3_000,
    warmUpRequests: 20_000,
    users: 20_000,
    backlog: 20_000,
    growth: [10_000, 100_000, 1_000_000],
    programs: 50,
    versions: 100,
    integrators: 1_000,
    memoryMillis: 600_000,
    memoryBacklogs: [10_000, 1_000_000],
    heldMillis: 120_000,
    latencyMillis: 20_000
  }
}

/** Figures of one turn, by metric; a metric's name ends in its unit. */
export type Sample = Readonly<Record<string, number>>

/** Who takes part in a measure; `turn` verifies that its work was done and fails where it was not. */
export interface Contestant<R = never> {
  readonly name: string
  readonly turn: (round: number) => Effect.Effect<Sample, Void, R>
}

/** The samples of one contestant, in order of the rounds. */
export interface Finding {
  readonly contestant: string
  readonly samples: ReadonlyArray<Sample>
}

/** A ratio that the measure is about, or a figure whose name ends in its unit, turn by turn. */
export interface Comparison {
  readonly what: string
  readonly ratios: ReadonlyArray<number>
  readonly reach?: { readonly bound: "at least" | "at most"; readonly value: number }
}

/** A figure over time; its name ends in its unit. */
export interface Course {
  readonly metric: string
  readonly points: ReadonlyArray<{ readonly contestant: string; readonly second: number; readonly value: number }>
}

/** What a measure found. */
export interface Result {
  readonly findings: ReadonlyArray<Finding>
  readonly comparisons: ReadonlyArray<Comparison>
  readonly remarks: ReadonlyArray<string>
  readonly course?: Course
}

/** One line of the table, or several that come from the same runs. */
export interface Measure<R> {
  /** What `--only` names it by. */
  readonly name: string
  readonly title: string
  /** How it is measured, for the page. */
  readonly method: string
  readonly run: (size: Size) => Effect.Effect<Result, Void, R>
}

/** A contestant did not do the work its figure would stand for. */
export class Void extends Schema.TaggedError<Void>()("Void", { message: Schema.String }) {}

/** Fails where a count is not what the work would have made it. */
export const verify = (what: string, actual: number, expected: number): Effect.Effect<void, Void> =>
  actual === expected
    ? Effect.void
    : Effect.fail(new Void({ message: `${what}: ${actual} instead of ${expected}` }))

/**
 * Lets the contestants take turns, A B A B, so that what disturbs the machine disturbs all of them alike. With `warmUp`
 * each has a turn before that does not count, as round −1.
 */
export const takeTurns = Effect.fnUntraced(function*<R>(
  contestants: ReadonlyArray<Contestant<R>>,
  rounds: number,
  options: { readonly warmUp?: true } = {}
): Effect.fn.Return<ReadonlyArray<Finding>, Void, R> {
  if (options.warmUp) for (const { turn } of contestants) yield* turn(-1)
  const samples = contestants.map((): Array<Sample> => [])
  for (let round = 0; round < rounds; round++) {
    for (const [index, contestant] of contestants.entries()) {
      const sample = yield* contestant.turn(round)
      yield* Effect.logInfo(`${contestant.name} ${round + 1}/${rounds}: ${printSample(sample)}`)
      samples[index]?.push(sample)
    }
  }
  return contestants.map(({ name }, index) => ({ contestant: name, samples: samples[index] ?? [] }))
})

const printSample = (sample: Sample): string =>
  Object.entries(sample).map(([metric, value]) => `${Number(value.toPrecision(4))} ${metric}`).join(", ")

/** The values of one metric of one contestant. */
export const valuesOf = (findings: ReadonlyArray<Finding>, contestant: string, metric: string): ReadonlyArray<number> =>
  findings.find((finding) => finding.contestant === contestant)?.samples.flatMap((sample) => sample[metric] ?? []) ?? []

/** One contestant's metric over another's, round by round. */
export const compare = (
  findings: ReadonlyArray<Finding>,
  what: { readonly of: string; readonly against: string; readonly metric: string },
  reach?: Comparison["reach"]
): Comparison => {
  const against = valuesOf(findings, what.against, what.metric)
  return {
    what: `${what.metric}: ${what.of} / ${what.against}`,
    ratios: valuesOf(findings, what.of, what.metric).map((value, round) => value / (against[round] ?? Number.NaN)),
    ...(reach === undefined ? {} : { reach })
  }
}

/** The middle value; of an even number the mean of the two. */
export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const low = sorted[(sorted.length - 1) >> 1] ?? Number.NaN
  const high = sorted[sorted.length >> 1] ?? Number.NaN
  return (low + high) / 2
}

/** The mean of the values of one fifth of a row, the fifths counted from 0. */
export const meanOfFifth = (values: ReadonlyArray<number>, fifth: number): number => {
  const at = (part: number) => Math.floor(values.length * part / 5)
  const part = values.slice(Math.min(at(fifth), values.length - 1), Math.max(at(fifth + 1), at(fifth) + 1))
  return part.reduce((sum, value) => sum + value, 0) / part.length
}

/** A figure as people read it: three digits that count, or whole thousands. */
export const figure = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString("en-US") : `${Number(value.toPrecision(3))}`

/** Whether the median reaches what was asked for; undefined where nothing was. */
export const isReached = ({ ratios, reach }: Comparison): boolean | undefined =>
  reach === undefined
    ? undefined
    : reach.bound === "at least" ? median(ratios) >= reach.value : median(ratios) <= reach.value
