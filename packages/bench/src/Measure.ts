import { Clock, Effect, Schema } from "effect"
import { OtherProcesses, printBusy } from "./OtherProcesses.ts"

/** How much work a run does. `small` checks that every measure works; its figures mean nothing. */
export interface Size {
  readonly name: "small" | "full"
  /** Rounds that count: a turn of each competitor, or {@link Size.shortTurns}. */
  readonly rounds: number
  /** Length of a long turn under load. */
  readonly turnMillis: number
  /** Short turns of each competitor in a round, see {@link takeShortTurns}, and the length of one under load. */
  readonly shortTurns: number
  readonly shortTurnMillis: number
  /** Length of the load before the first turn that counts. */
  readonly warmUpMillis: number
  /** Requests that the load before the first turn has at least, so that V8 has compiled the code that they run. */
  readonly warmUpRequests: number
  /** How long a worker has nothing to do while its CPU time is measured. */
  readonly idleMillis: number
  /** How long each of the loops runs that tell the speed of the machine. */
  readonly speedMillis: number
  readonly users: number
  /** Stored events that a worker processes in a turn. */
  readonly backlog: number
  /** Stored events at each step of the growth measure. */
  readonly growth: ReadonlyArray<number>
  readonly programs: number
  readonly versions: number
  /** What the integrator with much of everything has. */
  readonly heavy: {
    /** Open authorizations and unclaimed rewards of its one heavy user. */
    readonly authorizations: number
    readonly rewards: number
    /** Further users, each of whom owes and has a reward. */
    readonly owing: number
    /** Users with 50 rewards each, whose balances and pages are read. */
    readonly readers: number
  }
  /** Integrators that share the work of one, in the measure of many integrators. */
  readonly integrators: number
  /** Integrators that are spread over cells. */
  readonly cellIntegrators: number
  /** Length of the sustained load under which memory is sampled. */
  readonly memoryMillis: number
  /** Stored events that wait, in the two backlogs under which memory is compared. */
  readonly memoryBacklogs: readonly [small: number, large: number]
  /** How long the held transaction stays open. */
  readonly heldTransactionMillis: number
  /** Length of a turn of the latency measure. */
  readonly latencyMillis: number
  /** Endpoints without work, beside a busy one. */
  readonly idleEndpoints: number
  /** Events that wait for an endpoint that is down, in the two outages that are compared. */
  readonly outages: readonly [small: number, large: number]
  /** How long an outage lasts once its events are stored. */
  readonly outageMillis: number
}

export const sizes: Readonly<Record<Size["name"], Size>> = {
  small: {
    name: "small",
    rounds: 1,
    turnMillis: 20,
    shortTurns: 1,
    shortTurnMillis: 50,
    warmUpMillis: 10,
    warmUpRequests: 1,
    idleMillis: 200,
    speedMillis: 20,
    users: 100,
    backlog: 50,
    growth: [40, 120],
    programs: 2,
    versions: 2,
    heavy: { authorizations: 20, rewards: 100, owing: 50, readers: 2 },
    integrators: 10,
    cellIntegrators: 16,
    memoryMillis: 100,
    memoryBacklogs: [50, 150],
    heldTransactionMillis: 100,
    latencyMillis: 100,
    idleEndpoints: 100,
    outages: [300, 900],
    outageMillis: 500
  },
  full: {
    name: "full",
    rounds: 5,
    turnMillis: 5_000,
    shortTurns: 3,
    shortTurnMillis: 2_000,
    warmUpMillis: 3_000,
    warmUpRequests: 20_000,
    idleMillis: 5_000,
    speedMillis: 1_000,
    users: 20_000,
    backlog: 20_000,
    growth: [10_000, 100_000, 1_000_000],
    programs: 50,
    versions: 100,
    heavy: { authorizations: 10_000, rewards: 100_000, owing: 200_000, readers: 20 },
    integrators: 1_000,
    cellIntegrators: 64,
    memoryMillis: 600_000,
    memoryBacklogs: [10_000, 1_000_000],
    heldTransactionMillis: 120_000,
    latencyMillis: 20_000,
    idleEndpoints: 10_000,
    outages: [10_000, 1_000_000],
    outageMillis: 20_000
  }
}

/** The figures of one turn by metric. A metric's name ends in its unit. */
export type Sample = Readonly<Record<string, number>>

/** A program, or a condition, that a measure compares with others. */
export interface Competitor<R = never> {
  readonly name: string
  /**
   * One turn. Counts the work that was done and fails where some is missing, unless the measure does so after all
   * turns. No two turns have the same number.
   */
  readonly turn: (number: number) => Effect.Effect<Sample, InvalidRun, R>
}

/** The samples of one competitor, in the order of the rounds. */
export interface Finding {
  readonly competitor: string
  readonly samples: ReadonlyArray<Sample>
}

/** A ratio of two competitors in each round, or a figure in each round; a figure's name ends in its unit. */
export interface Comparison {
  readonly name: string
  readonly values: ReadonlyArray<number>
  /** What the median should be. */
  readonly target?: Target
}

export interface Target {
  readonly bound: "at least" | "at most"
  readonly value: number
}

/** A metric over time. Its name ends in its unit. */
export interface TimeSeries {
  readonly metric: string
  readonly points: ReadonlyArray<{ readonly competitor: string; readonly second: number; readonly value: number }>
}

/** What a measure found. */
export interface Result {
  readonly findings: ReadonlyArray<Finding>
  readonly comparisons: ReadonlyArray<Comparison>
  /** Sentences below the tables. */
  readonly remarks: ReadonlyArray<string>
  readonly timeSeries?: TimeSeries
}

/** A section of the performance page: competitors that take turns, or conditions of one program. */
export interface Measure<R> {
  /** The word that selects it with `--only`. */
  readonly name: string
  readonly title: string
  /** How it measures, as the page prints it. */
  readonly method: string
  readonly run: (size: Size) => Effect.Effect<Result, InvalidRun, R>
}

/** A competitor did not do the work that its figures would claim. The measure gives no result. */
export class InvalidRun extends Schema.TaggedError<InvalidRun>()("InvalidRun", { message: Schema.String }) {}

/** Fails unless a count is the expected one. */
export const verify = (what: string, actual: number, expected: number): Effect.Effect<void, InvalidRun> =>
  actual === expected
    ? Effect.void
    : Effect.fail(new InvalidRun({ message: `${what}: ${actual} instead of ${expected}` }))

/**
 * Runs the competitors' turns as A B B A, so that a disturbance of the machine affects all of them alike, and none is
 * always the first, which was up to a tenth slower. With `warmUp` each has one more turn before, numbered −1, that does
 * not count. A turn that another process disturbed is repeated; see {@link undisturbed}.
 */
export const takeTurns = Effect.fnUntraced(function*<R>(
  competitors: ReadonlyArray<Competitor<R>>,
  rounds: number,
  options: { readonly warmUp?: true } = {}
): Effect.fn.Return<ReadonlyArray<Finding>, InvalidRun, R | OtherProcesses> {
  if (options.warmUp) for (const { turn } of competitors) yield* turn(-1)
  const samples = competitors.map((): Array<Sample> => [])
  let turns = 0
  for (let round = 0; round < rounds; round++) {
    const order = [...competitors.entries()]
    for (const [index, competitor] of round % 2 === 0 ? order : order.toReversed()) {
      const sample = yield* undisturbed(competitor.name, Effect.suspend(() => competitor.turn(turns++)))
      yield* Effect.logInfo(`${competitor.name} ${round + 1}/${rounds}: ${formatSample(sample)}`)
      samples[index]?.push(sample)
    }
  }
  return competitors.map(({ name }, index) => ({ competitor: name, samples: samples[index] ?? [] }))
})

/**
 * {@link takeTurns} with several short turns in each round. The speed of the machine changes within seconds; a ratio is
 * that of two turns near each other.
 */
export const takeShortTurns = <R>(
  competitors: ReadonlyArray<Competitor<R>>,
  { rounds, shortTurns }: Size,
  options?: { readonly warmUp?: true }
): Effect.Effect<ReadonlyArray<Finding>, InvalidRun, R | OtherProcesses> =>
  takeTurns(competitors, rounds * shortTurns, options)

/** How often a turn is repeated. */
const maxRepeats = 2

/**
 * Repeats a turn beside which another process was busy. Fails where each repetition had one, unless the run is told to
 * go on.
 */
export const undisturbed = Effect.fnUntraced(function*<A, E, R>(name: string, turn: Effect.Effect<A, E, R>) {
  const others = yield* OtherProcesses
  for (let repeats = 0;; repeats++) {
    const startedAt = yield* Clock.currentTimeMillis
    const value = yield* turn
    const busy = others.isAllowed ? [] : yield* others.busySince(startedAt)
    if (busy.length === 0) return value
    const message = `${name}: other processes used the machine: ${printBusy(busy)}`
    if (repeats === maxRepeats) return yield* new InvalidRun({ message })
    yield* Effect.logWarning(`${message}; the turn is repeated`)
  }
})

const formatSample = (sample: Sample): string =>
  Object.entries(sample).map(([metric, value]) => `${Number(value.toPrecision(4))} ${metric}`).join(", ")

/** The values of one metric of one competitor, in the order of the rounds. */
export const valuesOf = (findings: ReadonlyArray<Finding>, competitor: string, metric: string): ReadonlyArray<number> =>
  findings.find((finding) => finding.competitor === competitor)?.samples.flatMap((sample) => sample[metric] ?? []) ?? []

/** One competitor's metric divided by another's, round by round. */
export const compare = (
  findings: ReadonlyArray<Finding>,
  { metric, ...what }: { readonly of: string; readonly against: string; readonly metric: string },
  target?: Target
): Comparison => compareSum(findings, { ...what, name: metric, metrics: [metric] }, target)

/** The sum of some of one competitor's metrics divided by that of another's, round by round. */
export const compareSum = (
  findings: ReadonlyArray<Finding>,
  what: {
    readonly of: string
    readonly against: string
    /** What the sum is, with its unit. */
    readonly name: string
    readonly metrics: ReadonlyArray<string>
  },
  target?: Target
): Comparison => {
  const sumsOf = (competitor: string) =>
    findings.find((finding) => finding.competitor === competitor)?.samples.map((sample) =>
      what.metrics.reduce((sum, metric) => sum + (sample[metric] ?? Number.NaN), 0)
    ) ?? []
  const against = sumsOf(what.against)
  return {
    name: `${what.name}: ${what.of} / ${what.against}`,
    values: sumsOf(what.of).map((value, round) => value / (against[round] ?? Number.NaN)),
    ...(target === undefined ? {} : { target })
  }
}

/** The middle value; for an even count the mean of the two middle values. */
export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const low = sorted[(sorted.length - 1) >> 1] ?? Number.NaN
  const high = sorted[sorted.length >> 1] ?? Number.NaN
  return (low + high) / 2
}

/** The mean of one fifth of the values, in their order; the fifths count from 0. */
export const meanOfFifth = (values: ReadonlyArray<number>, fifth: number): number => {
  const at = (part: number) => Math.floor(values.length * part / 5)
  const part = values.slice(Math.min(at(fifth), values.length - 1), Math.max(at(fifth + 1), at(fifth) + 1))
  return part.reduce((sum, value) => sum + value, 0) / part.length
}

/** Three significant digits, or a whole number with separators between thousands. */
export const formatFigure = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString("en-US") : `${Number(value.toPrecision(3))}`

/** Whether the median meets the target; undefined without a target. */
export const isTargetMet = ({ target, values }: Comparison): boolean | undefined =>
  target === undefined
    ? undefined
    : target.bound === "at least" ? median(values) >= target.value : median(values) <= target.value
