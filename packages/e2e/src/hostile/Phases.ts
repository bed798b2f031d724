import { Effect, Option } from "effect"
import type { Attack, Form } from "./Attack.ts"
import * as Attacker from "./Attacker.ts"
import { peakBytes, resetPeak } from "./Memory.ts"
import { scheduleOf, slowdown } from "./ProcessorTime.ts"
import { type Summary, wallMillis } from "./Samples.ts"
import type { Stage } from "./Stage.ts"

/** How long the innocent integrator is watched around an attack. */
export interface Timing {
  readonly beforeMillis: number
  /** Of the attack itself, where it ends sooner. */
  readonly leastMillis: number
  readonly afterMillis: number
}

export const fullTiming: Timing = { beforeMillis: 5_000, leastMillis: 5_000, afterMillis: 5_000 }
export const shortTiming: Timing = { beforeMillis: 800, leastMillis: 1_300, afterMillis: 500 }

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

/** Prepares an attack, and measures the innocent integrator before, during and after it. */
export const measure = Effect.fnUntraced(function*(options: {
  readonly stage: Stage["Service"]
  readonly attack: Attack
  readonly form: Form
  readonly timing: Timing
  /** Each attempt needs an integrator of its own. */
  readonly attempt: number
}) {
  const { attack, attempt, form, stage, timing } = options
  const { api, innocent, worker } = stage
  const attacker = yield* Attacker.make(stage, `${attack.name}-${attempt}`)
  const assault = yield* form.prepare(attacker)
  yield* calm(stage)
  const from = wallMillis()
  yield* Effect.sleep(timing.beforeMillis + marginMillis)
  for (const { pid } of [api, worker]) resetPeak(pid)
  const schedules = [api, worker].map(({ pid }) => ({ pid, schedule: scheduleOf(pid) }))
  const startedAt = wallMillis()
  const result = yield* Effect.timeoutOption(assault, attack.maxSeconds * 1_000)
  yield* Effect.sleep(Math.max(0, timing.leastMillis - (wallMillis() - startedAt)))
  const ended = wallMillis()
  const isCalm = yield* calm(stage)
  const recovered = wallMillis()
  yield* Effect.sleep(timing.afterMillis + marginMillis)
  const { failures, figures } = Option.getOrElse(result, () => ({
    figures: [],
    failures: [`the attacker's own work was not done within ${attack.maxSeconds} s`]
  }))
  const measured: Measured = {
    attack: attack.name,
    what: form.what,
    before: innocent.summarize(from, startedAt - marginMillis),
    during: innocent.summarize(startedAt, ended),
    after: innocent.summarize(recovered, recovered + timing.afterMillis),
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
