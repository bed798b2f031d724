import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Effect, type Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { performance } from "node:perf_hooks"
import { own } from "../Checkout.ts"
import { generateLoad } from "../Load.ts"
import {
  compare,
  compareSum,
  type Competitor,
  InvalidRun,
  type Measure,
  type Size,
  takeTurns,
  verify
} from "../Measure.ts"
import { Processes, type Running, type Serving } from "../Processes.ts"
import { integratorOf, population } from "../Seed.ts"
import { Server } from "../Server.ts"
import { requests, type Senders } from "../SpendEvents.ts"
import { isQueueEmpty, onDatabase, verifyRows } from "./Backlog.ts"
import { accepted, api, connections, peer, type Requirements, serviceEnvironment, worker } from "./Competitors.ts"
import { addEndpoints } from "./Endpoints.ts"
import { latenciesOf } from "./Latency.ts"
import { awaitReady, graphileQueue } from "./Queues.ts"
import { giveSecrets, signedBy, withArrivals } from "./Receivers.ts"

const service = own.name
const stack = "Fastify + pg, graphile-worker, undici"

/** Integrators with an endpoint each: with fewer the jobs of the stack would wait for each other's lock on a vault. */
const integrators = 10
/** The stack gets a fifth of the purchases: a turn of it lasts about as long. */
const stackDivisor = 5
/** Smallest units that a purchase of 123.45 USD earns at 1 %. */
const earnedUnits = 1_234_500

const pollMillis = 20
const timeoutSeconds = 120

/** From the post of a purchase to its signed webhook, with everything at work at once. */
export const wholeLife: Measure<Requirements> = {
  name: "whole-life",
  title: "A purchase, from its post to its signed webhook",
  method: "One api and one worker. Purchases of 10 integrators are posted on 64 connections, and are processed and " +
    "delivered meanwhile; the rate counts from the first post until the last webhook has arrived. The stack is what " +
    "one would write: Fastify stores the event and adds a job of graphile-worker in one statement; the job does the " +
    "same SQL work as in the measure of processing and adds a second one, which signs the webhook and posts it with " +
    "undici. It looks up no address and no secret, and records no attempt. The receiver verifies each signature. " +
    "Then the rows and amounts are verified, and that each purchase had one webhook.",
  run: Effect.fn("wholeLife")(function*(size: Size) {
    const senders = { integrators, users: size.users }
    const findings = yield* takeTurns([
      purchases({ ...yield* startService(senders), name: service, senders, count: size.backlog }),
      purchases({
        ...yield* startStack(senders),
        name: stack,
        senders,
        count: Math.ceil(size.backlog / stackDivisor)
      })
    ], size.rounds, { warmUp: true })
    return {
      findings,
      comparisons: [
        compare(findings, { of: service, against: stack, metric: "purchases/s" }, { bound: "at least", value: 6 }),
        compareSum(findings, {
          of: service,
          against: stack,
          name: "CPU µs/purchase",
          metrics: ["api", "worker", "PostgreSQL"].map((part) => `${part} CPU µs/purchase`)
        })
      ],
      remarks: []
    }
  }, Effect.scoped)
}

/** The processes of a competitor over its database, and whether they have nothing left to do. */
interface Stack {
  readonly url: Redacted.Redacted
  readonly api: Serving
  readonly worker: Running
  readonly receiver: Serving
  readonly isDone: (sql: SqlClient.SqlClient) => Effect.Effect<boolean, SqlError.SqlError>
}

const startReceiver = Effect.gen(function*() {
  const processes = yield* Processes
  return yield* processes.serve({ entry: peer("receiver"), env: { FOLLOWED: "" } })
})

const startService = Effect.fnUntraced(function*(senders: Senders) {
  const server = yield* Server
  const processes = yield* Processes
  const url = yield* server.database(population({ ...senders, programs: 1, versions: 1 }))
  const receiver = yield* startReceiver
  yield* giveSecrets(receiver, yield* addEndpoints(url, integrators, [`${receiver.baseUrl}/hooks`]))
  const env = serviceEnvironment(url)
  const isDelivered = (sql: SqlClient.SqlClient) =>
    Effect.map(sql`${sql.literal(undelivered)} LIMIT 1`, (rows) => rows.length === 0)
  return {
    url,
    api: yield* processes.serve({ entry: api, env }),
    worker: yield* processes.start({ entry: worker, env }),
    receiver,
    isDone: (sql) =>
      Effect.flatMap(isQueueEmpty(sql), (isEmpty) => isEmpty ? isDelivered(sql) : Effect.succeed(false))
  } satisfies Stack
})

const startStack = Effect.fnUntraced(function*(senders: Senders) {
  const server = yield* Server
  const processes = yield* Processes
  const url = yield* server.database(population({ ...senders, programs: 1, versions: 1 }))
  const receiver = yield* startReceiver
  const secret = WebhookSecret.make(`service_whsec_${"5".repeat(64)}`)
  const owners = Array.from({ length: integrators }, (_, index) => integratorOf(index))
  yield* giveSecrets(receiver, Object.fromEntries(owners.map((owner) => [owner, secret])))
  const env = serviceEnvironment(url)
  const worker = yield* processes.start({
    entry: peer("graphileWorker"),
    env: { ...env, WEBHOOK_URL: `${receiver.baseUrl}/hooks`, WEBHOOK_SECRET: secret }
  })
  yield* awaitReady(url, graphileQueue)
  return {
    url,
    api: yield* processes.serve({ entry: peer("fastify"), env: { ...env, JOBS: "true" } }),
    worker,
    receiver,
    isDone: graphileQueue.isDone
  } satisfies Stack
})

/** A competitor whose turn is the whole life of `count` purchases. */
const purchases = (options: Stack & {
  readonly name: string
  readonly senders: Senders
  readonly count: number
}): Competitor<Requirements> => {
  const { api, count, isDone, name, receiver, senders, url } = options
  let posted = 0
  return {
    name,
    turn: Effect.fnUntraced(function*(round: number) {
      const sent: Array<{ readonly id: string; readonly sentAt: bigint }> = []
      const next = requests(senders, `w${round}`, 1, ({ externalTransactionId: id }) => {
        sent.push({ id, sentAt: process.hrtime.bigint() })
      })
      const before = yield* cpuOfParts(options)
      const load = yield* generateLoad({
        baseUrls: [api.baseUrl],
        connections,
        millis: 0,
        atLeast: count,
        next,
        expected: accepted
      })
      yield* verify(`${name}: wrong responses`, load.wrong, 0)
      posted += load.requests
      yield* awaitWebhooks(name, receiver, posted)
      yield* awaitDone(name, url, isDone)
      const after = yield* cpuOfParts(options)
      const arrived = yield* withArrivals(name, receiver, sent)
      yield* verifyOutcomes(options, posted)
      const latencies = latenciesOf(arrived.map(({ receivedAt, sentAt }) => receivedAt - sentAt))
      const perPurchase = (part: keyof typeof before) => (after[part] - before[part]) / load.requests
      return {
        "purchases/s": load.requests / secondsOf(arrived),
        "202 p50 ms": load.p50,
        "202 p99 ms": load.p99,
        "webhook p50 ms": latencies["p50 ms"],
        "webhook p99 ms": latencies["p99 ms"],
        "api CPU µs/purchase": perPurchase("api"),
        "worker CPU µs/purchase": perPurchase("worker"),
        "PostgreSQL CPU µs/purchase": perPurchase("postgres"),
        "generator CPU µs/purchase": load.cpuMicros / load.requests,
        "receiver CPU µs/purchase": perPurchase("receiver")
      }
    })
  }
}

/** From the first post to the last webhook. */
const secondsOf = (all: ReadonlyArray<{ readonly sentAt: bigint; readonly receivedAt: bigint }>): number => {
  const first = all.reduce((least, { sentAt }) => sentAt < least ? sentAt : least, all[0]?.sentAt ?? 0n)
  const last = all.reduce((most, { receivedAt }) => receivedAt > most ? receivedAt : most, 0n)
  return Number(last - first) / 1e9
}

const cpuOfParts = Effect.fnUntraced(function*({ api, receiver, worker }: Stack) {
  return {
    api: yield* api.cpuMicros,
    worker: yield* worker.cpuMicros,
    receiver: yield* receiver.cpuMicros,
    postgres: yield* (yield* Server).cpuMicros
  }
})

/** Waits until the receiver has a valid webhook of each purchase. */
const awaitWebhooks = Effect.fnUntraced(function*(name: string, receiver: Serving, purchases: number) {
  const endsAt = performance.now() + timeoutSeconds * 1_000
  while ((yield* signedBy(receiver)).distinct < purchases) {
    if (performance.now() > endsAt) {
      yield* verify(`${name}: purchases with a webhook`, (yield* signedBy(receiver)).distinct, purchases)
    }
    yield* Effect.sleep(pollMillis)
  }
})

/** Waits until what follows from the last webhook is recorded. */
const awaitDone = (name: string, url: Redacted.Redacted, isDone: Stack["isDone"]) =>
  onDatabase(
    url,
    Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.repeat(isDone(sql), { until: (done) => done }))
  ).pipe(Effect.timeoutOrElse({
    duration: `${timeoutSeconds} seconds`,
    orElse: () => Effect.fail(new InvalidRun({ message: `${name} does not finish within ${timeoutSeconds} s` }))
  }))

/** Verifies rows, amounts and webhooks; each integrator's deposit has one journal entry and one event more. */
const verifyOutcomes = Effect.fnUntraced(function*({ name, receiver, url }: Stack & { name: string }, posted: number) {
  yield* verifyRows(url, name, "spend_events", posted)
  yield* verifyRows(url, name, "rewards", posted)
  yield* verifyRows(url, name, "journal", posted + integrators)
  yield* verifyRows(url, name, "events", posted + integrators)
  const amounts = yield* onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ rewards: number; pending: number; journal: number }>`
        SELECT (SELECT sum(amount) FROM rewards)::float8 AS rewards,
          (SELECT sum(pending) FROM user_balances)::float8 AS pending,
          (SELECT sum(amount) FROM journal WHERE to_account = 'pending')::float8 AS journal`
      return row ?? { rewards: 0, pending: 0, journal: 0 }
    })
  )
  const { distinct, earned, refused, repeated } = yield* signedBy(receiver)
  const expected = posted * earnedUnits
  yield* verify(`${name}: sum of rewards`, amounts.rewards, expected)
  yield* verify(`${name}: sum of pending balances`, amounts.pending, expected)
  yield* verify(`${name}: sum of journal entries`, amounts.journal, expected)
  yield* verify(`${name}: sum of webhooks`, earned, expected)
  yield* verify(`${name}: purchases with a webhook`, distinct, posted)
  yield* verify(`${name}: repeated webhooks`, repeated, 0)
  yield* verify(`${name}: webhooks without a valid signature`, refused, 0)
})
