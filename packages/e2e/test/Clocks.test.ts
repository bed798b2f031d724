import { customer, newLedger } from "@card-rewards/e2e/Load"
import { service } from "@card-rewards/e2e/Setting"
import { verify } from "@card-rewards/e2e/Verify"
import { seedIntegrator, listen } from "@card-rewards/e2e/World"
import { until } from "@card-rewards/testing/Polling"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"

const customers = 8
const jumps = 12
const hourMillis = 3_600_000

layer(WebhookReceiver.layer, { excludeTestServices: true })("the machine's time", (it) => {
  it.effect("jumps back and forth by up to two hours, without damage to money, events or their order", () =>
    Effect.gen(function*() {
      const receiver = yield* WebhookReceiver
      const random = SeededRandom.make(7)
      const { api, env, replaceWorker, shiftClocks, client, worker } = yield* service()
      // purchases are so far in the past that they are before the sandbox clock after any jump
      const ledger = newLedger(yield* seedIntegrator(client), 5 * hourMillis)
      yield* listen(client, receiver.url)
      const jump = Effect.gen(function*() {
        for (let done = 0; done < jumps; done++) {
          const before = ledger.acknowledged
          yield* shiftClocks(random.pick([-1, 1]) * random.integer(0, 2 * hourMillis))
          yield* until("acknowledged", Effect.sync(() => ledger.acknowledged - before), (n) => n >= 20, 60)
          // attempts fail, and the next ones are planned by a clock that is about to change
          receiver.answer(done % 2 === 0 ? 503 : 200)
        }
        receiver.answer(200)
        yield* shiftClocks(0)
        ledger.closed = true
      })
      const load = Array.from({ length: customers }, (_, index) => customer(client, ledger, index))
      yield* Effect.all([jump, ...load], { concurrency: "unbounded", discard: true })
      assert.isTrue(api.isAlive() && worker().isAlive(), api.output() + worker().output())
      // attempts that were planned by a clock two hours ahead are due at that time
      yield* replaceWorker
      yield* shiftClocks(3 * hourMillis)
      yield* verify({ env, client, ledger, received: receiver.received })
    }).pipe(Effect.scoped))
})
