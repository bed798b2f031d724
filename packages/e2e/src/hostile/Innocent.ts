import { until } from "@card-rewards/testing/Polling"
import { root } from "@card-rewards/testing/Processes"
import * as TestProcess from "@card-rewards/testing/TestProcess"
import { Effect } from "effect"
import { type Line, Samples, type Summary, wallMillis } from "./Samples.ts"

/** The integrator that attacks nobody, as it is served. */
export interface Innocent {
  /** The phase of the posts intended in `[from, to)`, milliseconds since 1970. */
  readonly summarize: (from: number, to: number) => Summary
  /** Age of the oldest event that has not got its answer, reward and webhook; see {@link Samples}. */
  readonly oldestUnfinishedMillis: () => number
}

/** Starts the innocent integrator's process, and succeeds once its first event has had its reward and webhook. */
export const start = Effect.fnUntraced(function*(options: {
  readonly integratorId: string
  readonly apiKey: string
  readonly baseUrl: string
}) {
  const child = yield* TestProcess.start(["packages/e2e/src/hostile/innocentProcess.ts"], {
    cwd: root,
    env: { INTEGRATOR_ID: options.integratorId, API_KEY: options.apiKey, BASE_URL: options.baseUrl }
  })
  const samples = new Samples()
  let read = 0
  const update = (): Samples => {
    const output = child.output()
    if (!child.isAlive()) throw new Error(`the innocent integrator has ended: ${output.slice(-2_000)}`)
    const end = output.lastIndexOf("\n") + 1
    for (const text of output.slice(read, end).split("\n")) if (text !== "") samples.record(lineOf(text))
    read = Math.max(read, end)
    return samples
  }
  const innocent: Innocent = {
    summarize: (from, to) => update().summarize(from, to, wallMillis()),
    oldestUnfinishedMillis: () => update().oldestUnfinishedMillis(wallMillis())
  }
  yield* until("the innocent integrator's first reward and webhook", Effect.sync(() => {
    const { posts, webhook, reward } = innocent.summarize(0, wallMillis())
    return posts - Math.max(webhook.unfinished, reward.unfinished)
  }), (finished) => finished > 0)
  return innocent
})

const lineOf = (text: string): Line => JSON.parse(text)
