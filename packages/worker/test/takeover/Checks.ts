import { Audit } from "@card-rewards/core/Audit"
import { untilTrue } from "@card-rewards/testing/Polling"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { allDelivered } from "../Dispatching.ts"
import { countByEvent, keyOf, longestGap, outOfOrder } from "./Arrivals.ts"
import type { Holder, Stage } from "./Stage.ts"
import type { Worker } from "./Workers.ts"

/** How much longer than promised something may take, besides a multiple of what the machine stalled. */
const marginMillis = 2_000
const stallFactor = 4

/** Asserts that something since then took at most so long; a machine that is busy has a margin. */
export const assertWithin = (
  stage: Stage,
  what: string,
  { mostMillis, since, tookMillis }: Readonly<Record<"tookMillis" | "mostMillis" | "since", number>>
) => {
  assert.isAtMost(tookMillis, mostMillis + marginMillis + stallFactor * stage.load.slowestMillis(since), what)
}

/** Asserts that these leases are as before, and that the endpoints got events all the time since the fault. */
export const assertUninterrupted = Effect.fnUntraced(function*(
  stage: Stage,
  { before, others }: { readonly before: ReadonlyMap<string, Holder>; readonly others: ReadonlyArray<string> },
  since: number
) {
  const after = yield* stage.holders
  for (const one of others) assert.deepStrictEqual(after.get(one), before.get(one), one)
  const gapMillis = longestGap(stage.receiver.arrivals, others, [since, performance.now()])
  const stall = stallFactor * stage.load.slowestMillis(since)
  assert.isBelow(gapMillis, stage.leaseMillis / 2 + stall, "another worker's endpoint is not interrupted")
  return gapMillis
})

/** Asserts that only these events are repeated, each so often at most. */
export const assertRepeats = (repeats: ReadonlyArray<string>, mayRepeat: ReadonlyArray<string>) => {
  const left = [...mayRepeat]
  const others = repeats.filter((key) => left.includes(key) ? void left.splice(left.indexOf(key), 1) : true)
  assert.deepStrictEqual(others, [], "repeated although recorded")
}

/** By event, how many attempts are recorded, and how many of them as successes. */
const recorded = ({ sql }: Stage) =>
  Effect.map(
    sql<{ integrator: string; event: bigint; attempts: number; successes: number }>`
      SELECT integrator_id AS integrator, event, count(*)::int4 AS attempts,
        (count(*) FILTER (WHERE status = 200))::int4 AS successes
      FROM delivery_attempts GROUP BY integrator_id, event`,
    (rows) => new Map(rows.map((row) => [keyOf({ ...row, event: Number(row.event) }), row]))
  )

/** Events of these integrators that have arrived more often than attempts are recorded, each as often as it did. */
export const unrecorded = Effect.fnUntraced(function*(stage: Stage, integrators: ReadonlyArray<string>) {
  const attempts = yield* recorded(stage)
  const counts = countByEvent(stage.receiver.arrivals.filter(({ integrator }) => integrators.includes(integrator)))
  return [...counts].flatMap(([key, count]) => {
    const excess = count - (attempts.get(key)?.attempts ?? 0)
    return Array.from({ length: Math.max(0, excess) }, () => key)
  })
})

/**
 * The same at a fault of a worker. Returns it as a function, which adds what this worker has sent before the fault and
 * the receiver reads after it.
 */
export const unrecordedBy = Effect.fnUntraced(function*(
  stage: Stage,
  integrators: ReadonlyArray<string>,
  worker: Worker
) {
  const { arrivals } = stage.receiver
  const keys = yield* unrecorded(stage, integrators)
  const read = arrivals.length
  return () => [...keys, ...arrivals.slice(read).filter((one) => one.worker === worker.name).map(keyOf)]
})

/** How many attempts at these integrators are recorded that started until then, in milliseconds of the wall clock. */
export const attemptsUntil = Effect.fnUntraced(function*(
  { sql }: Stage,
  integrators: ReadonlyArray<string>,
  atMillis: number
) {
  const [row] = yield* sql<{ count: number }>`SELECT count(*)::int4 AS count FROM delivery_attempts
    WHERE integrator_id IN ${sql.in(integrators)} AND at <= to_timestamp(${atMillis}::float8 / 1000)`
  return row?.count
})

/** Ends a worker, which exits with 0 and has logged no defect. Returns when it exited. */
export const stop = Effect.fnUntraced(function*(worker: Worker) {
  yield* worker.send("SIGTERM")
  assert.strictEqual(yield* worker.exit, 0, worker.output())
  assert.notMatch(worker.output(), /"level":"(error|fatal)"/iu)
  return performance.now()
})

/**
 * Stores no more events, waits until all are delivered, and stops the workers. Each event has arrived, and none before
 * the success of the event of its reward before it. Each has one recorded success, so that none was sent again after
 * it. The audit finds nothing. Returns the events that arrived without a record, as {@link unrecorded} does.
 */
export const verify = Effect.fnUntraced(function*(stage: Stage, workers: ReadonlyArray<Worker>) {
  const { load, receiver: { arrivals }, sql } = stage
  yield* load.end
  yield* untilTrue(allDelivered)
  for (const worker of workers) yield* stop(worker)
  const stored = yield* sql<{ integrator: string; event: bigint }>`
    SELECT integrator_id AS integrator, event FROM events`
  const keys = stored.map((row) => keyOf({ ...row, event: Number(row.event) }))
  const counts = countByEvent(arrivals)
  assert.deepStrictEqual(keys.filter((key) => !counts.has(key)), [], "stored and not delivered")
  assert.deepStrictEqual(outOfOrder(arrivals), [], "sent before the event before it was delivered")
  const attempts = yield* recorded(stage)
  assert.deepStrictEqual(keys.filter((key) => attempts.get(key)?.successes !== 1), [], "not recorded exactly once")
  const { findings } = yield* Effect.flatMap(Audit, ({ run }) => run).pipe(Effect.provide(Audit.layer))
  assert.deepStrictEqual(findings, [])
  return yield* unrecorded(stage, stage.integrators)
})
