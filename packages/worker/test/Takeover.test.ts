import { maxInFlightPerEndpoint } from "@card-rewards/domain/Delivery"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { maxEvents } from "../src/WebhookDispatcher/Window.ts"
import { longestGap } from "./takeover/Arrivals.ts"
import * as Checks from "./takeover/Checks.ts"
import * as Stage from "./takeover/Stage.ts"
import * as Workers from "./takeover/Workers.ts"

/** `full`: leases last 30 s, as by default; a process is stopped, or without its database, for a minute. */
const isFull = process.env["TAKEOVER"] === "full"
const firstLeaseMillis = isFull ? 30_000 : 4_000
/** A stopped process goes on when another one has its endpoints, and not before this. */
const stoppedMillis = isFull ? 60_000 : 0
/** How long the database is away for all. */
const awayMillis = (leaseMillis: number) => isFull ? 60_000 : leaseMillis + 2_000
const hourMillis = 3_600_000
/** Workers recover within this when the database is back; see docs/operations.md. */
const recoverMillis = 10_000
/** No attempt starts when so much of a lease has passed since it was renewed: it might outlast the lease. */
const startsWithin = 0.5
/** PostgreSQL ends the transaction of a stopped process, and with it its locks, after this. */
const idleInTransactionMillis = 5_000
/** How long the receiver takes to answer a worker that is being stopped. */
const answerMillis = 100
/** What a stopping worker waits for its attempts. */
const drainMillis = 6_500
const timeoutMillis = isFull ? 600_000 : 180_000

/** Two workers, each of which holds some endpoints. */
const twoWorkers = Effect.fnUntraced(function*(
  stage: Stage.Stage,
  first: Parameters<Stage.Stage["start"]>,
  second: typeof first
) {
  const workers = yield* Effect.all([stage.start(...first), stage.start(...second)], { concurrency: 2 })
  yield* stage.spread(...workers)
  const [one, other] = workers
  return { one, other, own: yield* stage.heldBy(one), others: yield* stage.heldBy(other), before: yield* stage.holders }
})

const report = (stage: Stage.Stage, fault: string, figures: Readonly<Record<string, number>>) =>
  Effect.gen(function*() {
    const shown = Object.entries({ endpoints: stage.integrators.length, ...figures })
    yield* Effect.logInfo(`${fault}: ${shown.map(([name, value]) => `${name} ${Math.round(value)}`).join(", ")}`)
    if (isFull) for (const { name, output } of stage.workers) yield* Effect.logInfo(`log of ${name}:\n${output()}`)
  })

const kill = Effect.fnUntraced(function*(stage: Stage.Stage) {
  const { leaseMillis } = stage
  const workers = yield* twoWorkers(stage, ["killed"], ["other"])
  const { one: killed, other, own } = workers
  const choice = { worker: killed, among: own }
  yield* Stage.recordAhead(stage, choice)
  // attempts are in flight at one endpoint, and ended without a record at another one
  yield* Stage.keepInFlight(stage, choice)
  yield* Stage.endUnrecorded(stage, choice, killed.send("SIGKILL"))
  const since = performance.now()
  yield* killed.exit
  yield* Workers.isQuiet(killed)
  const unrecordedThen = yield* Checks.unrecordedBy(stage, own, killed)
  stage.receiver.forget()
  const tookMillis = yield* stage.goesOn(own, other, since)
  Checks.assertWithin(stage, "go on", { tookMillis, mostMillis: leaseMillis, since })
  assert.include(other.output(), "Took over webhooks")
  const mayRepeat = unrecordedThen()
  const gapMillis = yield* Checks.assertUninterrupted(stage, workers, since)
  const repeats = yield* Checks.verify(stage, [other])
  Checks.assertRepeats(repeats, mayRepeat)
  assert.isAtLeast(repeats.length, 2 * maxInFlightPerEndpoint, "what was not recorded is repeated")
  assert.isAtMost(mayRepeat.length, own.length * maxEvents)
  const figures = { unrecorded: mayRepeat.length, repeats: repeats.length, tookMillis, gapMillis }
  yield* report(stage, "SIGKILL", { own: own.length, ...figures })
})

const pause = Effect.fnUntraced(function*(stage: Stage.Stage) {
  const { leaseMillis } = stage
  const workers = yield* twoWorkers(stage, ["paused"], ["other"])
  const { one: paused, other, own } = workers
  const choice = { worker: paused, among: own }
  yield* Stage.keepInFlight(stage, choice)
  yield* Stage.endUnrecorded(stage, choice, paused.send("SIGSTOP"))
  const [since, stoppedAt] = [performance.now(), Date.now()]
  yield* Workers.isQuiet(paused)
  const unrecordedThen = yield* Checks.unrecordedBy(stage, own, paused)
  const recorded = yield* Checks.attemptsUntil(stage, own, stoppedAt)
  stage.receiver.forget()
  const tookMillis = yield* stage.goesOn(own, other, since)
  const mostMillis = Math.max(leaseMillis, idleInTransactionMillis)
  Checks.assertWithin(stage, "go on", { tookMillis, mostMillis, since })
  assert.include(other.output(), "Took over webhooks")
  const gapMillis = yield* Checks.assertUninterrupted(stage, workers, since)
  yield* Effect.sleep(Math.max(0, since + stoppedMillis - performance.now()))
  const wokenAt = performance.now()
  yield* paused.send("SIGCONT")
  yield* Workers.works(paused)
  const sent = stage.receiver.arrivals.filter(({ at, worker }) => at > wokenAt && worker === paused.name)
  const isStale = ({ startedAtSeconds }: (typeof sent)[number]) => startedAtSeconds > stoppedAt / 1_000
  assert.deepStrictEqual(sent.filter(isStale), [], "started under a lease that had ended")
  assert.strictEqual(yield* Checks.attemptsUntil(stage, own, stoppedAt), recorded, "recorded under such a lease")
  const mayRepeat = unrecordedThen()
  // what is in flight when a worker is stopped ends and is recorded
  const silent = yield* Stage.keepInFlight(stage, { worker: other, among: stage.integrators })
  yield* Effect.forkScoped(Effect.delay(Effect.sync(() => stage.receiver.release(silent)), answerMillis))
  const exitedAt = yield* Checks.stop(other)
  const atOnceMillis = yield* stage.goesOn(stage.integrators, paused, exitedAt)
  Checks.assertWithin(stage, "go on at once", { tookMillis: atOnceMillis, mostMillis: 0, since: exitedAt })
  const repeats = yield* Checks.verify(stage, [paused])
  Checks.assertRepeats(repeats, mayRepeat)
  assert.isAtLeast(repeats.length, 2 * maxInFlightPerEndpoint, "what was not recorded is repeated")
  assert.isAtMost(mayRepeat.length, own.length * maxEvents)
  const figures = { unrecorded: mayRepeat.length, repeats: repeats.length, tookMillis, gapMillis, atOnceMillis }
  yield* report(stage, "SIGSTOP", { own: own.length, stale: sent.length, ...figures })
})

const stop = Effect.fnUntraced(function*(stage: Stage.Stage) {
  const { leaseMillis } = stage
  const workers = yield* twoWorkers(stage, ["stopped"], ["other"])
  const { one: stopped, other, own } = workers
  const since = performance.now()
  const exitedAt = yield* Checks.stop(stopped)
  const tookMillis = since - exitedAt + (yield* stage.goesOn(own, other, since))
  Checks.assertWithin(stage, "go on", { tookMillis, mostMillis: 0, since })
  const gapMillis = yield* Checks.assertUninterrupted(stage, workers, since)
  yield* Workers.isQuiet(stopped)
  // one receiver does not answer
  const next = yield* stage.start("next")
  const silent = yield* Stage.keepInFlight(stage, { worker: other, among: stage.integrators })
  const stoppingAt = performance.now()
  const drainedAt = yield* Checks.stop(other)
  const drainedMillis = drainedAt - stoppingAt
  Checks.assertWithin(stage, "exits", { tookMillis: drainedMillis, mostMillis: drainMillis, since: stoppingAt })
  const mayRepeat = yield* Checks.unrecorded(stage, [silent])
  stage.receiver.forget()
  const rest = stage.integrators.filter((one) => one !== silent)
  const restMillis = yield* stage.goesOn(rest, next, drainedAt)
  Checks.assertWithin(stage, "go on", { tookMillis: restMillis, mostMillis: 0, since: drainedAt })
  const silentMillis = yield* stage.goesOn([silent], next, drainedAt)
  Checks.assertWithin(stage, "goes on", { tookMillis: silentMillis, mostMillis: leaseMillis, since: drainedAt })
  const repeats = yield* Checks.verify(stage, [next])
  Checks.assertRepeats(repeats, mayRepeat)
  assert.lengthOf(repeats, maxInFlightPerEndpoint, "what was in flight is repeated, and nothing else")
  const figures = { exitMillis: exitedAt - since, tookMillis, gapMillis, drainedMillis, restMillis, silentMillis }
  yield* report(stage, "SIGTERM", { own: own.length, repeats: repeats.length, ...figures })
})

const jump = Effect.fnUntraced(function*(stage: Stage.Stage) {
  const { leaseMillis } = stage
  const workers = yield* twoWorkers(stage, ["wrong"], ["other"])
  const { before, one: wrong, other, own } = workers
  const behindAt = performance.now()
  yield* wrong.shiftClock(-hourMillis)
  const behindMillis = yield* stage.goesOn(own, other, behindAt)
  Checks.assertWithin(stage, "go on", { tookMillis: behindMillis, mostMillis: leaseMillis, since: behindAt })
  const gapMillis = yield* Checks.assertUninterrupted(stage, workers, behindAt)
  const ownGapMillis = longestGap(stage.receiver.arrivals, own, [behindAt, behindAt + behindMillis])
  const aheadAt = performance.now()
  yield* wrong.shiftClock(hourMillis)
  const aheadMillis = yield* stage.goesOn(stage.integrators, wrong, aheadAt)
  Checks.assertWithin(stage, "it leases all", { tookMillis: aheadMillis, mostMillis: 0, since: aheadAt })
  yield* wrong.shiftClock(0)
  yield* Workers.works(wrong)
  const rightAt = performance.now()
  const rightMillis = yield* stage.goesOn(stage.integrators, wrong, rightAt)
  Checks.assertWithin(stage, "go on", { tookMillis: rightMillis, mostMillis: 0, since: rightAt })
  const exitedAt = yield* Checks.stop(wrong)
  const tookMillis = yield* stage.goesOn(stage.integrators, other, exitedAt)
  Checks.assertWithin(stage, "go on", { tookMillis, mostMillis: 0, since: exitedAt })
  const after = yield* stage.holders
  const repeats = yield* Checks.verify(stage, [other])
  const leases = stage.integrators.map((one) => Number((after.get(one)?.token ?? 0n) - (before.get(one)?.token ?? 0n)))
  for (const [index, one] of stage.integrators.entries()) {
    const repeated = repeats.filter((key) => key.startsWith(`${one} `))
    assert.isAtMost(repeated.length, maxEvents * (leases[index] ?? 0), one)
  }
  const figures = { behindMillis, ownGapMillis, gapMillis, aheadMillis, rightMillis, tookMillis }
  const counts = { leases: leases.reduce((sum, one) => sum + one, 0), repeats: repeats.length }
  yield* report(stage, "clock", { own: own.length, ...counts, ...figures })
})

const loseDatabase = Effect.fnUntraced(function*(stage: Stage.Stage) {
  const { leaseMillis } = stage
  const [proxy, otherProxy] = [yield* NetworkProxy.toDatabase, yield* NetworkProxy.toDatabase]
  const workers = yield* twoWorkers(stage, ["alone", proxy.through], ["other", otherProxy.through])
  const { one: alone, other, others, own } = workers
  const choice = { worker: alone, among: own }
  const silent = yield* Stage.keepInFlight(stage, choice)
  // the clock changes too, which makes the lease no longer
  const cut = Effect.andThen(proxy.cut, alone.shiftClock(-hourMillis))
  yield* Stage.endUnrecorded(stage, choice, cut)
  const since = performance.now()
  yield* Effect.sleep(startsWithin * leaseMillis)
  const answeredAt = performance.now()
  stage.receiver.release(silent)
  const tookMillis = yield* stage.goesOn(own, other, since)
  Checks.assertWithin(stage, "go on", { tookMillis, mostMillis: leaseMillis, since })
  const started = stage.receiver.arrivals.filter(({ at, worker }) => at > answeredAt && worker === alone.name)
  assert.deepStrictEqual(started, [], "started when the lease might not outlast it")
  const gapMillis = yield* Checks.assertUninterrupted(stage, workers, since)
  yield* alone.shiftClock(0)
  yield* Stage.endUnrecorded(stage, { worker: other, among: others }, otherProxy.cut)
  const bothAt = performance.now()
  yield* Effect.sleep(awayMillis(leaseMillis))
  const mayRepeat = yield* Checks.unrecorded(stage, stage.integrators)
  const sent = stage.receiver.arrivals.filter(({ at }) => at > bothAt)
  assert.deepStrictEqual(sent.filter(({ at }) => at > bothAt + leaseMillis), [], "sent after the lease's end")
  yield* Effect.all([proxy.restore, otherProxy.restore])
  const backAt = performance.now()
  const backMillis = yield* stage.goesOn(stage.integrators, undefined, backAt)
  Checks.assertWithin(stage, "go on", { tookMillis: backMillis, mostMillis: recoverMillis, since: backAt })
  const repeats = yield* Checks.verify(stage, [alone, other])
  Checks.assertRepeats(repeats, mayRepeat)
  assert.isAtLeast(repeats.length, 2 * maxInFlightPerEndpoint, "what was not recorded is repeated")
  assert.isAtMost(mayRepeat.length, (own.length + stage.integrators.length) * maxEvents)
  const figures = { unrecorded: mayRepeat.length, repeats: repeats.length, tookMillis, gapMillis, backMillis }
  yield* report(stage, "database", { own: own.length, sentWithout: sent.length, ...figures })
})

/**
 * Runs a scenario with leases of this duration. Where a worker may have lost leases because the machine stalled, a run
 * with longer ones decides.
 */
const run = (
  scenario: typeof kill | typeof loseDatabase,
  options: { readonly isRefusing: boolean; readonly leaseMillis: number; readonly isLast: boolean }
): Effect.Effect<void, unknown> =>
  Effect.gen(function*() {
    const stage = yield* Stage.make(options)
    return yield* scenario(stage).pipe(
      Effect.as(true),
      Effect.catchCause((cause) =>
        stage.hasStalled() && !options.isLast
          ? Effect.as(Effect.logWarning("The machine has stalled", cause), false)
          : Effect.failCause(cause)
      )
    )
  }).pipe(
    Effect.scoped,
    Effect.provide(Stage.services),
    Effect.flatMap((isDone) =>
      isDone ? Effect.void : run(scenario, { ...options, leaseMillis: 3 * options.leaseMillis, isLast: true }))
  )

const test = (name: string, scenario: Parameters<typeof run>[0], isRefusing = true) =>
  it.live(name, () => run(scenario, { isRefusing, leaseMillis: firstLeaseMillis, isLast: isFull }), timeoutMillis)

describe("takeover of endpoints, in the log's order of each reward and without loss", () => {
  test("within a lease from a killed worker, whose unrecorded attempts alone are repeated", kill)
  test("within a lease from a paused worker, which then sends and records nothing of it, and works on", pause)
  if (isFull) test("at once from a stopped worker, except where a receiver does not answer", stop)
  // a retry that is planned by a clock that is an hour ahead is due in an hour
  test("without a pause from a worker whose clock is an hour behind, and by one that is an hour ahead", jump, false)
  test("from a worker without its database; if all are without it, they go on when it is back", loseDatabase)
})
