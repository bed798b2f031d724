import * as Database from "@card-rewards/core/Database"
import { Secrets } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { maxInFlightPerEndpoint } from "@card-rewards/domain/Delivery"
import { until, untilTrue } from "@card-rewards/testing/Polling"
import { secretsKeys } from "@card-rewards/testing/Secrets"
import { Context, Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { endpoint } from "../Dispatching.ts"
import * as Load from "./Load.ts"
import * as Receiver from "./Receiver.ts"
import * as Workers from "./Workers.ts"

class Url extends Context.Service<Url, Redacted.Redacted>()("test/Url") {}

/** A database of its own. */
export const services = Layer.unwrap(Effect.gen(function*() {
  const url = yield* TestDatabase.makeMigrated(Database.migrate)
  return WebhookEndpoints.layer({ allowPrivateNetwork: true }).pipe(
    Layer.provide(Secrets.layer({ keys: secretsKeys })),
    Layer.provideMerge(Database.layer({ url, poolSize: 3, applicationName: "test" })),
    Layer.merge(Layer.succeed(Url, url))
  )
}))

export interface Options {
  readonly leaseMillis: number
  /** Whether the receiver refuses the first request of some events. */
  readonly isRefusing: boolean
}

/** The name of the worker that holds an endpoint, and the token of its lease. */
export interface Holder {
  readonly worker: string | undefined
  readonly token: bigint
}

/** Each worker holds so many endpoints at least. */
const holdsAtLeast = 3
const mostIntegrators = 60
/** How many events are recorded ahead of an endpoint's cursor in {@link recordAhead}. */
const aheadAtLeast = 8
/** How long the end of a lease is waited for, besides its duration. */
const waitSeconds = 60

/** Integrators whose events are stored all the time, the receiver, and workers that the test starts. */
export const make = Effect.fnUntraced(function*({ isRefusing, leaseMillis }: Options) {
  const url = yield* Url
  const sql = yield* SqlClient.SqlClient
  const integrators: Array<string> = []
  const workers: Array<Workers.Worker> = []
  const receiver = yield* Receiver.make(isRefusing)
  const load = yield* Load.make(integrators)
  const { arrivals } = receiver

  /** The names of workers, by the names that they have in leases. */
  const names = new Map<string, string>()
  const leases = sql<{ integratorId: string; worker: string | null; token: bigint }>`
    SELECT integrator_id, worker, token FROM webhook_endpoints`

  /** Adds an integrator, whose endpoint one of the workers leases. */
  const add = Effect.gen(function*() {
    const integrator = `i${integrators.length}`
    yield* endpoint(integrator, receiver.url(integrator))
    integrators.push(integrator)
    const first = () => arrivals.find((arrival) => arrival.integrator === integrator)
    yield* untilTrue(Effect.sync(() => first() !== undefined))
    const lease = (yield* leases).find(({ integratorId }) => integratorId === integrator)
    names.set(lease?.worker ?? "", first()?.worker ?? "")
  })
  const holders = Effect.map(leases, (rows): ReadonlyMap<string, Holder> =>
    new Map(rows.map(({ integratorId, token, worker }) => [integratorId, { worker: names.get(worker ?? ""), token }])))
  const heldBy = ({ name }: Workers.Worker) =>
    Effect.map(holders, (all) => [...all].flatMap(([integrator, { worker }]) => worker === name ? integrator : []))

  return {
    leaseMillis,
    sql,
    receiver,
    load,
    integrators,
    workers,
    /** Whether the machine was so busy that a worker may not have renewed its leases in time. */
    hasStalled: () => load.slowestMillis(0) > leaseMillis / 8,
    holders,
    heldBy,
    start: Effect.fnUntraced(function*(name: string, through = (direct: Redacted.Redacted) => direct) {
      const worker = yield* Workers.start(name, through(url), leaseMillis)
      workers.push(worker)
      return worker
    }),
    /** Adds integrators until each worker holds some. */
    spread: Effect.fnUntraced(function*(...among: ReadonlyArray<Workers.Worker>) {
      while (integrators.length < mostIntegrators) {
        const held = yield* Effect.forEach(among, heldBy)
        if (held.every(({ length }) => length >= holdsAtLeast)) return
        yield* add
      }
      return yield* Effect.die(new Error("a worker leases nothing"))
    }),
    /**
     * Waits until this worker, or any, has sent an event of each of these integrators since then; returns after how
     * many milliseconds.
     */
    goesOn: Effect.fnUntraced(function*(ones: ReadonlyArray<string>, by: Workers.Worker | undefined, since: number) {
      const firsts = () => {
        const own = arrivals.filter(({ at, worker }) => at >= since && (by === undefined || by.name === worker))
        return ones.map((one) => own.find(({ integrator }) => integrator === one)?.at ?? Number.NaN)
      }
      const isEach = (found: ReadonlyArray<number>) => found.every(Number.isFinite)
      const seconds = leaseMillis / 1_000 + waitSeconds
      const found = yield* until(`sent by ${by?.name}: ${ones}`, Effect.sync(firsts), isEach, seconds)
      return Math.max(...found) - since
    })
  }
})

export type Stage = Effect.Success<ReturnType<typeof make>>

/** A worker, and integrators whose endpoints it has held. */
export interface Choice {
  readonly worker: Workers.Worker
  readonly among: ReadonlyArray<string>
}

/**
 * The receiver does not answer the requests of one endpoint that a worker holds, or so many of them. Waits until those
 * are in flight. Returns the integrator: a worker may lose an endpoint before it has requests in flight there.
 */
const holdOne = Effect.fnUntraced(function*(
  { load, receiver }: Stage,
  { among, worker }: Choice,
  { inFlight, most }: { readonly inFlight: number; readonly most?: number }
) {
  for (const integrator of among.filter((one) => !receiver.isHeld(one))) {
    receiver.hold(integrator, most)
    yield* load.storeMany(integrator)
    yield* untilTrue(Effect.sync(() => receiver.heldFrom(integrator).length >= inFlight))
    if (receiver.heldFrom(integrator).every((name) => name === worker.name)) return integrator
    receiver.release(integrator)
  }
  return yield* Effect.die(new Error(`${worker.name} holds none of ${among}`))
})

/** The receiver does not answer an integrator. Waits until it has as many attempts in flight as possible; see above. */
export const keepInFlight = (stage: Stage, choice: Choice) =>
  holdOne(stage, choice, { inFlight: maxInFlightPerEndpoint })

/** The receiver does not answer one request of an integrator. Waits until events after it are recorded. */
export const recordAhead = Effect.fnUntraced(function*(stage: Stage, choice: Choice) {
  const integrator = yield* holdOne(stage, choice, { inFlight: 1, most: 1 })
  const ahead = stage.sql`SELECT 1 FROM delivery_attempts a JOIN webhook_endpoints e USING (integrator_id)
    WHERE integrator_id = ${integrator} AND a.event > e.cursor AND a.status = 200`
  yield* untilTrue(Effect.map(ahead, ({ length }) => length >= aheadAtLeast))
})

/** Ends a worker, or its connections, when as many attempts have ended, none of which it can record before that. */
export const endUnrecorded = Effect.fnUntraced(function*<E, R>(
  stage: Stage,
  choice: Choice,
  end: Effect.Effect<void, E, R>
) {
  const { receiver: { arrivals, release }, sql } = stage
  const integrator = yield* keepInFlight(stage, choice)
  yield* sql.withTransaction(Effect.gen(function*() {
    // an endpoint that another transaction has locked is recorded later
    yield* sql`SELECT 1 FROM webhook_endpoints WHERE integrator_id = ${integrator} FOR NO KEY UPDATE`
    const before = arrivals.length
    release(integrator)
    // more attempts start because those have ended
    yield* untilTrue(Effect.sync(() => arrivals.slice(before).some((arrival) => arrival.integrator === integrator)))
    yield* end
    yield* Workers.isQuiet(choice.worker)
  }))
})
