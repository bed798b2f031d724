import { Effect, Option } from "effect"
import * as Attacker from "./Attacker.ts"
import { peakBytes, resetPeak } from "./Memory.ts"
import { scheduleOf, slowdown } from "./ProcessorTime.ts"
import { type Summary, wallMillis } from "./Samples.ts"
import type { Prepared, Stage } from "./Stage.ts"

/** How long the innocent integrator is watched around an attack. */
export interface Timing {
  /** Before and after the attack. */
  readonly quietMillis: number
  /** Of the attack itself, where it ends sooner. */
  readonly leastMillis: number
}

export const fullTiming: Timing = { quietMillis: 5_000, leastMillis: 5_000 }
export const shortTiming: Timing = { quietMillis: 800, leastMillis: 1_300 }

/** After an attack all is as before within this. */
export const recoveredWithinMillis = 10_000

/** What an attack came to. Times are milliseconds, memory is bytes. */
export interface Measured {
  readonly attack: string
  readonly what: string
  readonly before: Summary
  readonly during: Summary
  readonly after: Summary
  readonly duringMillis: number
  /** From the attack's end to when no event was unfinished for longer than {@link calmMillis}; absent without that. */
  readonly recoveryMillis: number | undefined
  readonly peakBytes: { readonly api: number; readonly worker: number }
  /** How many times longer than alone api or worker took from the attack on, because others had the processors. */
  readonly slowdown: number
  readonly figures: ReadonlyArray<string>
  readonly failures: ReadonlyArray<string>
}

/** No event is unfinished for longer than this while all is well; a slow machine included. */
const calmMillis = 1_000
/** What an event takes while all is well: a phase ends so long before what may disturb its events. */
const marginMillis = 300

/** Measures the innocent integrator while no one attacks, once it is calm. */
export const quiet = Effect.fnUntraced(function*(stage: Stage["Service"], { quietMillis }: Timing) {
  const isCalm = yield* calm(stage)
  const from = wallMillis()
  yield* Effect.sleep(quietMillis + marginMillis)
  return { isCalm, from, summary: stage.innocent.summarize(from, from + quietMillis) }
})

/** Measures the innocent integrator during and after an attack. */
export const measure = Effect.fnUntraced(function*(options: {
  readonly stage: Stage["Service"]
  readonly prepared: Prepared
  readonly timing: Timing
  /** The quiet phase that has just ended: the one after another attack is the one before this. */
  readonly before: Summary
}) {
  const { before, prepared: { assault, attack, attacker, form }, stage, timing } = options
  const { innocent, service: { api, worker } } = stage
  for (const { pid } of [api, worker]) resetPeak(pid)
  const schedules = [api, worker].map(({ pid }) => ({ pid, schedule: scheduleOf(pid) }))
  const startedAt = wallMillis()
  const result = yield* Effect.timeoutOption(assault, attack.maxSeconds * 1_000)
  yield* Effect.sleep(Math.max(0, timing.leastMillis - (wallMillis() - startedAt)))
  const ended = wallMillis()
  const { from: recovered, isCalm, summary: after } = yield* quiet(stage, timing)
  const { failures, figures } = Option.getOrElse(result, () => ({
    figures: [],
    failures: [`the attacker's own work was not done within ${attack.maxSeconds} s`]
  }))
  const measured: Measured = {
    attack: attack.name,
    what: form.what,
    before,
    during: innocent.summarize(startedAt, ended),
    after,
    duringMillis: ended - startedAt,
    recoveryMillis: isCalm ? recovered - ended : undefined,
    peakBytes: { api: peakBytes(api.pid), worker: peakBytes(worker.pid) },
    slowdown: Math.max(...schedules.map(({ pid, schedule }) => slowdown(schedule, scheduleOf(pid)))),
    figures: [...figures, ...Attacker.refusals(attacker)],
    failures
  }
  return measured
})

/** Waits, for {@link recoveredWithinMillis} at most, until no event is unfinished for long; whether that came to be. */
const calm = Effect.fnUntraced(function*({ innocent }: Stage["Service"]) {
  const end = wallMillis() + recoveredWithinMillis
  while (innocent.oldestUnfinishedMillis() > calmMillis) {
    if (wallMillis() > end) return false
    yield* Effect.sleep(50)
  }
  return true
})
