import { Deliveries, type EndpointRecord, type Leased, type LogDelivery } from "@card-rewards/core/Deliveries"
import { closedBreaker } from "@card-rewards/domain/Delivery"
import { Unavailable } from "@card-rewards/domain/Errors"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { type Answer, Connector } from "@card-rewards/worker/Connector"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, References, Scope } from "effect"
import { TestClock } from "effect/testing"

const secrets = [WebhookSecret.make(`service_whsec_${"0".repeat(64)}`)] as const
const endpoint = { url: "http://127.0.0.1:9/", revision: 1, breaker: closedBreaker, secrets, retries: [] }
const lease = { generation: 1, token: 1n, takenFrom: null, cursor: 0n, ahead: 0n }
const away = new Unavailable({ message: "away" })
const eventsEach = 40

/** What the database does with the records of some integrators. */
type Answering = (integratorIds: ReadonlyArray<string>) => Effect.Effect<void, Unavailable>

/** A dispatcher over endpoints with 40 events each, whose records go where the test says. */
const dispatcher = Effect.fnUntraced(function*(endpoints: number) {
  const cursors = new Map(Array.from({ length: endpoints }, (_, index) => [IntegratorId.make(`i${index}`), 0n]))
  const leasedOnce = new Set<string>()
  const state = {
    sent: 0,
    recorded: () => [...cursors.values()].reduce((sum, cursor) => sum + Number(cursor), 0),
    /** Called with the result of each attempt that is in flight, in order. */
    inFlight: new Array<() => void>(),
    /** Receivers answer at once. */
    answers: true,
    database: ((): Effect.Effect<void> => Effect.void) as Answering,
    reading: Effect.void as Effect.Effect<void, Unavailable>
  }
  const eventOf = (event: bigint): LogDelivery => ({
    event,
    round: 1,
    attempts: 0,
    reward: null,
    dueAt: 0,
    eventId: `evt_${event}`,
    body: "{}",
    traceparent: null,
    isBlocked: false
  })
  const store = ({ cursor, integratorId }: EndpointRecord) => void cursors.set(integratorId, cursor)
  const core = Layer.succeed(Deliveries, {
    lease: ({ limit }) =>
      Effect.sync(() =>
        [...cursors.keys()].filter((one) => !leasedOnce.has(one)).slice(0, limit).map((integratorId): Leased => {
          leasedOnce.add(integratorId)
          return { ...lease, integratorId, breaker: closedBreaker }
        })
      ),
    renew: (leases) => Effect.succeed(new Set(leases.map(({ integratorId }) => integratorId))),
    read: (requests) =>
      Effect.map(state.reading, () =>
        requests.map(({ after, events, integratorId }) => ({
          integratorId,
          ...endpoint,
          readTo: after,
          events: Array.from({ length: Math.min(events, eventsEach - Number(after)) }, (_, index) =>
            eventOf(after + BigInt(index + 1)))
        }))),
    record: (records) =>
      Effect.map(Effect.suspend(() => state.database(records.map(({ integratorId }) => integratorId))), () => {
        records.forEach(store)
        return { stored: new Set(records.map(({ integratorId }) => integratorId)), busy: new Set<string>() }
      }),
    release: () => Effect.void,
    purge: () => Effect.succeed(false),
    keepAttempts: () => Effect.void
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
  const layer = WebhookDispatcher.layer({ retryDelays: [1_000] })
  yield* Layer.buildWithScope(Layer.provide(layer, [core, connector]), scope)
  return { state, stop: Scope.close(scope, Exit.void) }
}, Effect.provideService(References.MinimumLogLevel, "None"))

const nextPhase = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

/** Lets time pass in steps, between which callbacks of the event loop run. */
const pass = (seconds: number) =>
  Effect.repeat(
    Effect.andThen(TestClock.adjust("100 millis"), nextPhase),
    { times: seconds * 10 }
  )

describe("attempts", () => {
  it.effect("are recorded in parts that the database can do in its time", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(32)
      state.database = () => Effect.fail(away)
      yield* pass(10)
      // no more is sent than this
      assert.strictEqual(state.sent, 768)
      state.database = (ids) =>
        ids.length > 4 ? Effect.andThen(Effect.sleep(4_500), Effect.fail(away)) : Effect.sleep(500)
      yield* pass(120)
      assert.deepStrictEqual([state.sent, state.recorded()], [32 * eventsEach, 32 * eventsEach])
    }))

  it.effect("wait where nothing can be recorded, and are not sent again", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(1)
      state.database = () => Effect.fail(away)
      yield* pass(20)
      assert.deepStrictEqual([state.sent, state.recorded()], [eventsEach, 0])
      state.database = () => Effect.void
      yield* pass(10)
      assert.deepStrictEqual([state.sent, state.recorded()], [eventsEach, eventsEach])
    }))

  it.effect("whose record is refused hold up no other endpoint", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(8)
      state.database = (ids) => ids.includes("i3") ? Effect.die("fault") : Effect.void
      yield* pass(20)
      assert.strictEqual(state.recorded(), 7 * eventsEach)
    }))

  it.effect("do not hold up a stop, nor does a read, where the database does not answer", () =>
    Effect.gen(function*() {
      const { state, stop } = yield* dispatcher(2)
      const silent = Effect.andThen(Effect.sleep(4_500), Effect.fail(away))
      state.database = () => silent
      yield* pass(1)
      state.reading = silent
      yield* pass(1)
      const stopped = yield* Effect.forkChild(stop)
      yield* pass(7)
      assert.isDefined(stopped.pollUnsafe())
    }))
})
