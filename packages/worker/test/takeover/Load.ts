import { Effect, Fiber } from "effect"
import { events } from "../Dispatching.ts"
import { rewards } from "./Arrivals.ts"

const eventsAtATime = 3
const pauseMillis = 30

/** Stores events of the integrators all the time, in turn. */
export const make = Effect.fnUntraced(function*(integrators: ReadonlyArray<string>) {
  const stores: Array<{ readonly endedAt: number; readonly millis: number }> = []
  const store = (integrator: string, count: number) => events(integrator, count, { rewards, storedAt: Date.now() })
  const fiber = yield* Effect.forkScoped(Effect.gen(function*() {
    while (true) {
      for (const integrator of integrators) {
        const startedAt = performance.now()
        yield* store(integrator, eventsAtATime)
        yield* Effect.sleep(pauseMillis)
        const endedAt = performance.now()
        stores.push({ endedAt, millis: endedAt - startedAt })
      }
      if (integrators.length === 0) yield* Effect.sleep(pauseMillis)
    }
  }))
  return {
    /** Stores an event of each reward at once. */
    storeMany: (integrator: string) => store(integrator, rewards),
    end: Fiber.interrupt(fiber),
    /** How long it took to store at most since then, in milliseconds: longer where the machine is busy. */
    slowestMillis: (since: number) =>
      Math.max(0, ...stores.filter(({ endedAt }) => endedAt >= since).map(({ millis }) => millis))
  }
})
