import { Cluster } from "@card-rewards/e2e/Cluster"
import { customer, type Ledger, newLedger } from "@card-rewards/e2e/Load"
import { leaseOutlivedMillis } from "@card-rewards/e2e/Setting"
import { verify } from "@card-rewards/e2e/Verify"
import { seedIntegrator, listen, provision } from "@card-rewards/e2e/World"
import { until } from "@card-rewards/testing/Polling"
import { folder, freePort, shiftedClock, start, type Variables, variables } from "@card-rewards/testing/Processes"
import * as RawClient from "@card-rewards/testing/RawClient"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import type { Running } from "@card-rewards/testing/TestProcess"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, type Scope } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"

/** The number of processes that are killed; a long run sets 100 and more. */
const kills = Number(process.env["CRASH_KILLS"] ?? 6)
const seed = Number(process.env["CRASH_SEED"] ?? Date.now() % 1_000_000)
const customers = 16
/** The minimum number of acknowledged requests between two kills: the service has recovered before each of them. */
const acknowledgedBetween = 25

/** A process starts within a second or two; a busy machine takes longer. */
const comesBackWithinSeconds = 120

/** The victims of one round; each round has another order. */
const victims = ["api", "worker", "backend", "worker", "api", "postmaster"] as const
type Victim = typeof victims[number]

layer(Layer.merge(Cluster.layer(), WebhookReceiver.layer), { excludeTestServices: true })(
  "after SIGKILL at random moments",
  (it) => {
    it.effect("nothing acknowledged is lost or counted twice, and every event is delivered in order", () =>
      Effect.gen(function*() {
        const cluster = yield* Cluster
        const receiver = yield* WebhookReceiver
        const random = SeededRandom.make(seed)
        const shiftFile = join(yield* folder, "shift")
        writeFileSync(shiftFile, "0")
        const port = yield* freePort
        const env = variables(cluster.url, { PORT: `${port}`, CLOCK_SHIFT_FILE: shiftFile })
        const apiKey = yield* provision(env)
        const client = RawClient.make({ baseUrl: () => `http://127.0.0.1:${port}`, apiKey, timeoutMillis: 10_000 })
        const processes = yield* startProcesses(env, random)
        const ledger = newLedger(yield* seedIntegrator(client))
        yield* listen(client, receiver.url)

        const load = Array.from({ length: customers }, (_, index) => customer(client, ledger, seed + index + 1))
        yield* Effect.all([killAll(ledger, processes, random), disturbReceiver(ledger, random), ...load], {
          concurrency: "unbounded",
          discard: true
        }).pipe(
          Effect.onError(() => Effect.logError(client.failures, ...processes.outputs(), cluster.log().slice(-2_000)))
        )
        processes.assertAlive()

        // deliveries that killed workers had leased are sent again once their leases have expired
        yield* processes.endWorkers
        writeFileSync(shiftFile, `${leaseOutlivedMillis}`)
        yield* processes.startWorker
        const { deliveries, events, rewards } = yield* verify({ env, client, ledger, received: receiver.received })
        yield* Effect.logInfo(`seed ${seed}: survived ${kills} kills; ${events} spend events, ` +
          `${ledger.money.length} money moves, ${rewards} rewards, ${deliveries} deliveries; ` +
          `${client.failures.noAnswer} requests without an answer, ${client.failures.busy} with 429 or 503`)
      }).pipe(
        Effect.scoped,
        Effect.tapCause(() => Effect.logError(`the seed was ${seed}`))
      ), { timeout: 120_000 + kills * 20_000 })
  }
)

type Processes = Effect.Success<ReturnType<typeof startProcesses>>

/** One api and two workers; `strike` kills one of them, or a part of PostgreSQL, and starts it again. */
const startProcesses = Effect.fnUntraced(function*(env: Variables, random: SeededRandom.SeededRandom) {
  const cluster = yield* Cluster
  const startApi = start("api", env)
  const startWorker = start("worker", env, { preload: shiftedClock })
  let api = yield* startApi
  const apis = [api]
  const workers: [Running, Running] = [yield* startWorker, yield* startWorker]

  const strikes: Readonly<Record<Victim, Effect.Effect<void, never, Scope.Scope>>> = {
    backend: cluster.killBackend((pids) => pids[random.integer(0, pids.length - 1)]),
    postmaster: cluster.killPostmaster,
    api: Effect.gen(function*() {
      yield* killed(api)
      api = yield* startApi
      apis.push(api)
    }),
    worker: Effect.gen(function*() {
      const index = random.chance(0.5) ? 0 : 1
      yield* killed(workers[index])
      workers[index] = yield* startWorker
    })
  }

  return {
    startWorker,
    strike: (victim: Victim) => strikes[victim],
    assertAlive: () => {
      for (const child of [api, ...workers]) assert.isTrue(child.isAlive(), child.output())
    },
    endWorkers: Effect.gen(function*() {
      for (const worker of workers) yield* worker.send("SIGTERM")
      // the signal itself may end a worker that was started a moment ago
      for (const worker of workers) assert.include([0, null], yield* worker.exit, worker.output())
    }),
    /** Faults that any api logged, and the end of what each process printed. */
    outputs: () => [
      apis.flatMap((one) => one.output().match(/fault of the service[^]{0,2000}/g) ?? []),
      ...[api, ...workers].map((one) => one.output().slice(-2_000))
    ]
  }
})

const killed = (child: Running) => Effect.andThen(child.send("SIGKILL"), child.exit)

/** Kills victim after victim, with acknowledged requests in between. Then the customers end. */
const killAll = Effect.fnUntraced(
  function*(ledger: Ledger, { strike }: Processes, random: SeededRandom.SeededRandom) {
    const progress = (when: string) => {
      const before = ledger.acknowledged
      return until(
        `acknowledged ${when}`,
        Effect.sync(() => ledger.acknowledged - before),
        (n) => n >= acknowledgedBetween,
        comesBackWithinSeconds
      )
    }
    const rounds = Array.from({ length: Math.ceil(kills / victims.length) }, () => random.shuffled(victims)).flat()
    for (const [kill, victim] of rounds.slice(0, kills).entries()) {
      yield* progress(`before kill ${kill} (${victim})`)
      yield* Effect.sleep(random.integer(0, 800))
      yield* strike(victim)
    }
    yield* progress("after the last kill")
    // every customer finishes its requests in flight, so that every request has an answer
    ledger.closed = true
  }
)

/** Makes the receiver answer 500 for a moment from time to time, so that some deliveries need another attempt. */
const disturbReceiver = Effect.fnUntraced(function*(ledger: Ledger, random: SeededRandom.SeededRandom) {
  const receiver = yield* WebhookReceiver
  while (!ledger.closed) {
    yield* Effect.sleep(random.integer(300, 900))
    receiver.answer(500)
    yield* Effect.sleep(20)
    receiver.answer(200)
  }
})
