import { closedBreaker } from "@card-rewards/domain/Delivery"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { Consumer } from "../src/WebhookDispatcher/Consumer.ts"
import { type Faults, History } from "./consumers/History.ts"
import { Log } from "./consumers/Log.ts"

const count = Number(process.env["CONSUMER_HISTORIES"] ?? 10_000)
const steps = 150

/** Kinds of histories: from nothing but failing receivers to everything at once. */
const kinds: ReadonlyArray<Faults> = [
  { failing: 0.1, crash: 0, pause: 0, jump: 0, lock: 0, database: 0 },
  { failing: 0.3, crash: 0.5, pause: 0, jump: 0, lock: 0.3, database: 0 },
  { failing: 0.3, crash: 0.2, pause: 0.5, jump: 0, lock: 0.2, database: 0.05 },
  { failing: 0.7, crash: 0.2, pause: 0.2, jump: 0.3, lock: 0.2, database: 0.1 },
  { failing: 0.97, crash: 0.1, pause: 0.1, jump: 0.1, lock: 0.1, database: 0.02 }
]

it("events that an earlier holder has passed are passed, although nothing is to be sent", () => {
  const lease = { integratorId: IntegratorId.make("acme"), generation: 1, token: 1n }
  const leased = { ...lease, takenFrom: null, cursor: 0n, breaker: closedBreaker, ahead: 100n }
  const consumer = new Consumer(leased, 0, [1_000])
  const log = new Log()
  log.endpoint.token = 1n
  for (let event = 1n; event <= 100n; event++) {
    log.store(null, 0)
    log.delivered.add(event)
  }
  for (let now = 0; now < 500; now += 100) {
    const request = consumer.beginRead(now)
    for (const reading of request === undefined ? [] : log.read(request, now)) consumer.add(reading, now)
    if (!consumer.canRecord) continue
    log.record(consumer.record(), now)
    consumer.recorded(now)
  }
  assert.strictEqual(log.endpoint.cursor, 100n)
})

it.effect(`${count} histories of two workers keep the order of each reward and deliver every event`, () =>
  Effect.gen(function*() {
    let sent = 0
    let repeats = 0
    for (let seed = 0; seed < count; seed++) {
      const chances = kinds[seed % kinds.length]
      if (chances === undefined) continue
      const history = new History(seed, chances)
      history.run(steps)
      history.finish()
      assert.deepStrictEqual(history.faults, [], `seed ${seed}`)
      sent += history.sent
      repeats += history.repeats
    }
    yield* Effect.logInfo(`${count} histories: ${sent} attempts, ${repeats} repeated deliveries`)
  }))
