import { Cluster } from "@card-rewards/e2e/Cluster"
import { customer, newLedger } from "@card-rewards/e2e/Load"
import { leaseOutlivedMillis, shiftedClock } from "@card-rewards/e2e/Setting"
import { verify } from "@card-rewards/e2e/Verify"
import { seedIntegrator, listen, provision } from "@card-rewards/e2e/World"
import { until } from "@card-rewards/testing/Polling"
import { folder, freePort, start, variables } from "@card-rewards/testing/Processes"
import * as RawClient from "@card-rewards/testing/RawClient"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import type { Running } from "@card-rewards/testing/TestProcess"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"

/** The number of processes that are killed; a long run sets 100 and more. */
const kills = Number(process.env["CRASH_KILLS"] ?? 6)
const seed = Number(process.env["CRASH_SEED"] ?? Date.now() % 1_000_000)
const customers = 16
/** The minimum number of acknowledged requests between two kills: the service has recovered before each of them. */
const acknowledgedBetween = 25

/** A process starts within a second or two; a busy machine takes longer. */
const recoverySeconds = 120

/** The victims of one round; each round has another order. */
const victims = ["api", "worker", "backend", "worker", "api", "postmaster"] as const

layer(Layer.merge(Cluster.layer(), WebhookReceiver.layer), { excludeTestServices: true, timeout: "60 seconds" })(
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
        const startWorker = start("worker", env, { preload: shiftedClock })
        const api = yield* start("api", env)
        const workers: [Running, Running] = [yield* startWorker, yield* startWorker]
        const ledger = newLedger(yield* seedIntegrator(client))
        yield* listen(client, receiver.url)

        const service: Service = { api, apis: [api], workers, startApi: start("api", env), startWorker }
        const load = Array.from({ length: customers }, (_, index) => customer(client, ledger, seed + index + 1))
        const disturbances = [killAtRandom(service, random, ledger), disturbReceiver(random, ledger)]
        yield* Effect.all([...disturbances, ...load], { concurrency: "unbounded", discard: true }).pipe(
          Effect.onError(() => Effect.andThen(Effect.logError(client.failures), logOutputs(service)))
        )
        for (const child of [service.api, ...workers]) assert.isTrue(child.isAlive(), child.output())

        // the leases of killed workers expire, and their deliveries are made by another worker
        for (const worker of workers) yield* worker.send("SIGTERM")
        // the signal itself may end a worker that was started a moment ago
        for (const worker of workers) assert.include([0, null], yield* worker.exit, worker.output())
        writeFileSync(shiftFile, `${leaseOutlivedMillis}`)
        yield* startWorker
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

interface Service {
  /** The present api, and all that were started. */
  api: Running
  readonly apis: Array<Running>
  readonly workers: [Running, Running]
  readonly startApi: ReturnType<typeof start>
  readonly startWorker: ReturnType<typeof start>
}

/** Kills victim after victim, each at a random moment after the service has recovered from the one before. */
const killAtRandom = Effect.fnUntraced(function*(
  service: Service,
  random: SeededRandom.SeededRandom,
  ledger: ReturnType<typeof newLedger>
) {
  const progress = (when: string) => {
    const before = ledger.acknowledged
    const acknowledged = Effect.sync(() => ledger.acknowledged - before)
    return until(`acknowledged ${when}`, acknowledged, (n) => n >= acknowledgedBetween, recoverySeconds)
  }
  const rounds = Array.from({ length: Math.ceil(kills / victims.length) }, () => random.shuffled(victims)).flat()
  for (const [kill, victim] of rounds.slice(0, kills).entries()) {
    yield* progress(`before kill ${kill} (${victim})`)
    yield* Effect.sleep(random.integer(0, 800))
    yield* strike(service, victim, random)
  }
  yield* progress("after the last kill")
  // every customer finishes its requests in flight, so that every request has an answer
  ledger.closed = true
})

/** Kills a process and starts it again; the cluster starts PostgreSQL's processes itself. */
const strike = Effect.fnUntraced(function*(
  service: Service,
  victim: typeof victims[number],
  random: SeededRandom.SeededRandom
) {
  const { api, apis, startApi, startWorker, workers } = service
  const cluster = yield* Cluster
  if (victim === "backend") {
    yield* cluster.killBackend((pids) => pids[random.integer(0, pids.length - 1)])
  } else if (victim === "postmaster") {
    yield* cluster.killPostmaster
  } else if (victim === "api") {
    yield* api.send("SIGKILL")
    yield* api.exit
    service.api = yield* startApi
    apis.push(service.api)
  } else {
    const index = random.chance(0.5) ? 0 : 1
    yield* workers[index].send("SIGKILL")
    yield* workers[index].exit
    workers[index] = yield* startWorker
  }
})

/** Makes the receiver answer 500 for 20 ms, about once in 0.6 s. */
const disturbReceiver = Effect.fnUntraced(function*(
  random: SeededRandom.SeededRandom,
  ledger: ReturnType<typeof newLedger>
) {
  const receiver = yield* WebhookReceiver
  while (!ledger.closed) {
    yield* Effect.sleep(random.integer(300, 900))
    receiver.answer(500)
    yield* Effect.sleep(20)
    receiver.answer(200)
  }
})

const logOutputs = Effect.fnUntraced(function*({ api, apis, workers }: Service) {
  const cluster = yield* Cluster
  yield* Effect.logError(
    api.isAlive(),
    apis.flatMap((one) => one.output().match(/fault of the service[^]{0,2000}/g) ?? []),
    [api.output(), ...workers.map((one) => one.output()), cluster.log()].map((text) => text.slice(-2_000))
  )
})
