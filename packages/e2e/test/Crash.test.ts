import { Cluster } from "@card-rewards/e2e/Cluster"
import { customer, newLedger } from "@card-rewards/e2e/Load"
import { claimOutlivedMillis, shiftedClock } from "@card-rewards/e2e/Setting"
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

/** The long run sets 100 and more. */
const kills = Number(process.env["CRASH_KILLS"] ?? 6)
const seed = Number(process.env["CRASH_SEED"] ?? Date.now() % 1_000_000)
const customers = 16
/** Acknowledgements between two kills, at least: each kill hits a service that has come back. */
const acknowledgedBetween = 25

/** A process starts within a second or two, on a busy machine within many. */
const comesBackWithinSeconds = 120

/** One round of victims; more rounds follow in another order. */
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
        let api = yield* start("api", env)
        const apis = [api]
        const workers: [Running, Running] = [yield* startWorker, yield* startWorker]
        const ledger = newLedger(yield* seedIntegrator(client))
        yield* listen(client, receiver.url)

        const strike = Effect.fnUntraced(function*(victim: typeof victims[number]) {
          if (victim === "backend") {
            yield* cluster.killBackend((pids) => pids[random.integer(0, pids.length - 1)])
          } else if (victim === "postmaster") {
            yield* cluster.killPostmaster
          } else if (victim === "api") {
            yield* api.send("SIGKILL")
            yield* api.exit
            api = yield* start("api", env)
            apis.push(api)
          } else {
            const index = random.chance(0.5) ? 0 : 1
            yield* workers[index].send("SIGKILL")
            yield* workers[index].exit
            workers[index] = yield* startWorker
          }
        })
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
        const disaster = Effect.gen(function*() {
          for (const [kill, victim] of rounds.slice(0, kills).entries()) {
            yield* progress(`before kill ${kill} (${victim})`)
            yield* Effect.sleep(random.integer(0, 800))
            yield* strike(victim)
          }
          yield* progress("after the last kill")
          // every customer finishes its requests in flight, so that every request has an answer
          ledger.closed = true
        })
        const disturb = Effect.gen(function*() {
          while (!ledger.closed) {
            yield* Effect.sleep(random.integer(300, 900))
            receiver.answer(500)
            yield* Effect.sleep(20)
            receiver.answer(200)
          }
        })
        const load = Array.from({ length: customers }, (_, index) => customer(client, ledger, seed + index + 1))
        yield* Effect.all([disaster, disturb, ...load], { concurrency: "unbounded", discard: true }).pipe(
          Effect.onError(
            () => Effect.logError(
              client.failures,
              api.isAlive(),
              apis.flatMap((one) => one.output().match(/fault of the service[^]{0,2000}/g) ?? []),
              [api.output(), ...workers.map((one) => one.output()), cluster.log()].map((text) => text.slice(-2_000))
            )
          )
        )
        for (const child of [api, ...workers]) assert.isTrue(child.isAlive(), child.output())

        // what killed workers had claimed is delivered again once their claims are over
        for (const worker of workers) yield* worker.send("SIGTERM")
        // one that was started a moment ago may be ended by the signal itself
        for (const worker of workers) assert.include([0, null], yield* worker.exit, worker.output())
        writeFileSync(shiftFile, `${claimOutlivedMillis}`)
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
