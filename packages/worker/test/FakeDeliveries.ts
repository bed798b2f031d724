import {
  Deliveries,
  type EndpointLease,
  type EndpointRecord,
  type Leased,
  type LogDelivery
} from "@card-rewards/core/Deliveries"
import { closedBreaker } from "@card-rewards/domain/Delivery"
import { Unavailable } from "@card-rewards/domain/Errors"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { type Answer, Connector } from "@card-rewards/worker/Connector"
import { DispatcherWakeUp, WakeUp } from "@card-rewards/worker/DispatcherWakeUp"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { Effect, Exit, Layer, References, Scope } from "effect"
import { TestClock } from "effect/testing"

const secrets = [WebhookSecret.make(`service_whsec_${"0".repeat(64)}`)] as const
const endpoint = { url: "http://127.0.0.1:9/", revision: 1, breaker: closedBreaker, secrets, retries: [] }
const lease = { generation: 1, token: 1n, takenFrom: null }
export const away = new Unavailable({ message: "away" })
export const eventsEach = 40

const none: ReadonlySet<string> = new Set()
const named = (leases: ReadonlyArray<EndpointLease>): ReadonlySet<string> =>
  new Set(leases.map(({ integratorId }) => integratorId))

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

/** What the database does with a statement for some integrators. */
type Answering = (integratorIds: ReadonlyArray<string>) => Effect.Effect<void, Unavailable>

/** A dispatcher over endpoints with 40 events each, whose reads and records do what the test says. */
export const dispatcher = Effect.fnUntraced(function*(endpoints: number) {
  const cursors = new Map(Array.from({ length: endpoints }, (_, index) => [IntegratorId.make(`i${index}`), 0n]))
  const held = new Set<string>()
  const state = {
    /** How many events each endpoint has. */
    events: eventsEach,
    sent: 0,
    /** Scans for endpoints without a lease. */
    scans: 0,
    /** Endpoints of all polls. */
    polled: 0,
    recorded: () => [...cursors.values()].reduce((sum, cursor) => sum + Number(cursor), 0),
    /** Called with the result of each attempt that is in flight, in order. */
    inFlight: new Array<() => void>(),
    /** Receivers answer at once. */
    answers: true,
    database: ((): Effect.Effect<void> => Effect.void) as Answering,
    reading: ((): Effect.Effect<void> => Effect.void) as Answering
  }
  const store = ({ cursor, integratorId }: EndpointRecord) => void cursors.set(integratorId, cursor)
  const core = Layer.succeed(Deliveries, {
    lease: ({ limit }) =>
      Effect.sync(() => {
        state.scans++
        return [...cursors].filter(([one, cursor]) => !held.has(one) && cursor < state.events).slice(0, limit)
          .map(([integratorId, cursor]): Leased => {
            held.add(integratorId)
            return { ...lease, integratorId, cursor, ahead: cursor, breaker: closedBreaker }
          })
      }),
    renew: (leases) => Effect.succeed({ renewed: named(leases), busy: none }),
    poll: (requests) =>
      Effect.sync(() => {
        state.polled += requests.length
        return new Set(requests.flatMap((one) => one.after < state.events ? [one.integratorId] : []))
      }),
    read: (requests) =>
      Effect.map(Effect.suspend(() => state.reading(requests.map(({ integratorId }) => integratorId))), () =>
        requests.map(({ after, events, integratorId }) => ({
          integratorId,
          ...endpoint,
          readTo: after,
          events: Array.from({ length: Math.min(events, state.events - Number(after)) }, (_, index) =>
            eventOf(after + BigInt(index + 1)))
        }))),
    record: (records) =>
      Effect.map(Effect.suspend(() => state.database(records.map(({ integratorId }) => integratorId))), () => {
        records.forEach(store)
        return { stored: named(records), busy: none }
      }),
    release: (leases) =>
      Effect.map(Effect.suspend(() => state.database([...named(leases)])), () => {
        leases.forEach(({ integratorId }) => held.delete(integratorId))
        return none
      }),
    purge: () => Effect.succeed(false),
    keepAttempts: () => Effect.void
  })
  // a test that fails leaves what would wait for its clock
  const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Effect.forkDetach(Scope.close(scope, Exit.void)))
  const layer = WebhookDispatcher.layer({ retryDelays: [1_000] })
  const wakeUp = new WakeUp()
  const given = Layer.mergeAll(core, connectorOf(state), Layer.succeed(DispatcherWakeUp, wakeUp))
  yield* Layer.buildWithScope(Layer.provide(layer, given), scope)
  return { state, wakeUp, stop: Scope.close(scope, Exit.void) }
}, Effect.provideService(References.MinimumLogLevel, "None"))

const connectorOf = (state: { sent: number; answers: boolean; inFlight: Array<() => void> }) =>
  Layer.succeed(Connector, {
    post: (_, done: (answer: Answer) => void) => {
      state.sent++
      const end = () => done({ status: 200, bodySnippet: "" })
      if (state.answers) end()
      else state.inFlight.push(end)
      return () => undefined
    }
  })

/** Lets callbacks of the event loop run. */
export const nextPhase = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

/** Lets time pass in steps, between which callbacks of the event loop run. */
export const pass = (seconds: number) =>
  Effect.repeat(
    Effect.andThen(TestClock.adjust("100 millis"), nextPhase),
    { times: seconds * 10 }
  )
