import { Deliveries, type Outcome, type Outgoing } from "@card-rewards/core/Deliveries"
import { Unavailable } from "@card-rewards/domain/Errors"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { type Answer, Connector } from "@card-rewards/worker/Connector"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, References, Scope } from "effect"
import { TestClock } from "effect/testing"

const claimMillis = 60_000
const secrets = [WebhookSecret.make(`service_whsec_${"0".repeat(64)}`)] as const
const away = new Unavailable({ message: "away" })

/** What the database does with a batch. */
type Answering = (events: ReadonlyArray<number>) => Effect.Effect<void, Unavailable>

/** A dispatcher over so many deliveries of one endpoint, which are claimed as the database would let them be. */
const dispatcher = Effect.fnUntraced(function*(count: number) {
  const deliveries = Array.from({ length: count }, () => ({ recorded: false, claimedUntil: 0 }))
  const state = {
    sent: 0,
    recorded: () => deliveries.filter(({ recorded }) => recorded).length,
    /** Called with the outcome of each attempt that is in flight, in order. */
    inFlight: [] as Array<() => void>,
    /** Receivers answer at once. */
    answers: true,
    database: ((): Effect.Effect<void> => Effect.void) as Answering,
    claiming: Effect.void as Effect.Effect<void, Unavailable>
  }
  const outgoing = (index: number, claimedUntil: number): Outgoing => ({
    claim: {
      integratorId: IntegratorId.make("acme"),
      event: BigInt(index),
      round: 1,
      generation: 1,
      reward: null,
      attempt: 1,
      claimedUntil,
      probe: false,
      slow: false,
      traceparent: null
    },
    sendBefore: claimedUntil - 20_000,
    url: "http://127.0.0.1:9/",
    eventId: `evt_${index}`,
    body: "{}",
    secrets
  })
  const store = (outcomes: ReadonlyArray<Outcome>) => {
    const held = outcomes.filter(({ claim }) => deliveries[Number(claim.event)]?.claimedUntil === claim.claimedUntil)
    for (const { claim } of held) deliveries[Number(claim.event)] = { recorded: true, claimedUntil: 0 }
    return { held: held.length, busy: [] }
  }
  const core = Layer.succeed(Deliveries, {
    claim: ({ limit, now, perEndpoint, inFlight }) =>
      Effect.map(state.claiming, () => {
        const due = deliveries.flatMap(({ claimedUntil, recorded }, index) => recorded || claimedUntil > now ? [] : [index])
        return due.slice(0, Math.max(0, Math.min(limit, perEndpoint - (inFlight.get("acme") ?? 0)))).map((index) => {
          deliveries[index] = { recorded: false, claimedUntil: now + claimMillis }
          return outgoing(index, now + claimMillis)
        })
      }),
    record: (outcomes) =>
      Effect.map(Effect.suspend(() => state.database(outcomes.map(({ claim }) => Number(claim.event)))), () => store(outcomes)),
    settle: Effect.succeed(false)
  })
  const connector = Layer.succeed(Connector, {
    post: (_, done: (answer: Answer) => void) => {
      state.sent++
      const end = () => done({ status: 200, bodySnippet: "" })
      if (state.answers) end()
      else state.inFlight.push(end)
      return () => undefined
    }
  })
  // a test that fails leaves what would wait for its clock
  const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Effect.forkDetach(Scope.close(scope, Exit.void)))
  yield* Layer.buildWithScope(Layer.provide(WebhookDispatcher.layer, [core, connector]), scope)
  return { state, stop: Scope.close(scope, Exit.void) }
}, Effect.provideService(References.MinimumLogLevel, "None"))

describe("outcomes", () => {
  it.effect("are recorded in parts that the database can do in its time", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(1_000)
      state.database = () => Effect.fail(away)
      // no more is sent than this
      while (state.sent < 768) yield* TestClock.adjust("1 second")
      state.database = (events) =>
        events.length > 100
          ? Effect.andThen(Effect.sleep(4_500), Effect.fail(away))
          : Effect.sleep(4_000)
      yield* TestClock.adjust("3 minutes")
      assert.deepStrictEqual([state.sent, state.recorded()], [1_000, 1_000])
    }))

  it.effect("are recorded while another session has locked one of them", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(1_000)
      state.database = (events) => events.includes(3) ? Effect.andThen(Effect.sleep(4_500), Effect.fail(away)) : Effect.void
      yield* TestClock.adjust("50 seconds")
      assert.strictEqual(state.sent, 1_000)
      assert.isAtLeast(state.recorded(), 990)
    }))

  it.effect("that could not be recorded before their claims expired are not delivered again by the same process", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(16)
      state.database = () => Effect.fail(away)
      yield* TestClock.adjust("3 minutes")
      assert.deepStrictEqual([state.sent, state.recorded()], [16, 0])
      state.database = () => Effect.void
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual([state.sent, state.recorded()], [16, 16])
    }))

  it.effect("of attempts in flight while the clock jumps are recorded, and nothing is sent twice meanwhile", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(16)
      state.answers = false
      yield* TestClock.adjust("1 second")
      assert.lengthOf(state.inFlight, 16)
      for (const end of state.inFlight.splice(0, 8)) {
        yield* TestClock.adjust("1 minute")
        end()
      }
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([state.sent, state.recorded()], [16, 8])
      for (const end of state.inFlight) end()
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([state.sent, state.recorded()], [16, 16])
    }))

  it.effect("that are refused beside others are tried once more", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(16)
      let refusals = 0
      state.database = (events) => events.includes(3) && ++refusals < 6 ? Effect.die("fault") : Effect.void
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([state.sent, state.recorded()], [16, 16])
    }))

  it.effect("wait where nothing can be recorded, also after some could for a moment", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(16)
      state.database = (events) => {
        if (events.length > 1 || state.recorded() > 0) return Effect.die("fault")
        return Effect.void
      }
      yield* TestClock.adjust("30 seconds")
      assert.deepStrictEqual([state.sent, state.recorded()], [16, 1])
      state.database = () => Effect.void
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual([state.sent, state.recorded()], [16, 16])
    }))

  it.effect("do not hold up a stop, nor does a claim, where the database does not answer", () =>
    Effect.gen(function*() {
      const { state, stop } = yield* dispatcher(32)
      const silent = Effect.andThen(Effect.sleep(4_500), Effect.fail(away))
      state.database = () => silent
      yield* TestClock.adjust("1 second")
      state.claiming = silent
      yield* TestClock.adjust("1 second")
      const stopped = yield* Effect.forkChild(stop)
      yield* TestClock.adjust("6.5 seconds")
      assert.isDefined(stopped.pollUnsafe())
    }))
})
