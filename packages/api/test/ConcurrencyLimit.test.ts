import { ConcurrencyLimit, maxInFlight } from "@card-rewards/api/Pipeline/ConcurrencyLimit"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"

/** Requests of as many integrators as it takes, until one is refused. Returns those that were admitted. */
const fill = Effect.fnUntraced(function*(limit: ConcurrencyLimit, cell: string | undefined, most = Infinity) {
  const admitted: Array<Fiber.Fiber<never>> = []
  while (admitted.length < most) {
    const fiber = yield* Effect.forkChild(Effect.never)
    const integratorId = IntegratorId.make(`${cell}-${admitted.length % 8}`)
    if (!limit.enter("ingest", { integratorId, cell }, fiber)) break
    admitted.push(fiber)
  }
  return admitted
})

const max = maxInFlight.ingest

it.effect("keeps a part of the requests in flight for each cell, however many wait for other cells", () =>
  Effect.gen(function*() {
    const limit = new ConcurrencyLimit()
    for (const cell of ["a", "b", "c"]) yield* Fiber.interruptAll(yield* fill(limit, cell, 1))
    const kept = Math.floor(max / 6)
    const a = yield* fill(limit, "a")
    assert.lengthOf(a, max - 2 * kept)
    const b = yield* fill(limit, "b")
    assert.lengthOf(b, kept)
    assert.lengthOf(yield* fill(limit, "c"), kept)
    // what ends can be used again, beyond its part by any cell, within it by its own
    yield* Fiber.interruptAll(a.slice(0, 5))
    assert.lengthOf(yield* fill(limit, "b"), 5)
    yield* Fiber.interruptAll(b.slice(0, 5))
    assert.lengthOf(yield* fill(limit, "a"), 5)
  }))

it.effect("lets a cell that is known later have its part as soon as requests of the others end", () =>
  Effect.gen(function*() {
    const limit = new ConcurrencyLimit()
    const a = yield* fill(limit, "a")
    assert.lengthOf(a, max)
    assert.lengthOf(yield* fill(limit, "b"), 0)
    yield* Fiber.interruptAll(a.slice(0, 10))
    assert.lengthOf(yield* fill(limit, "a"), 0)
    assert.lengthOf(yield* fill(limit, "b"), 10)
    yield* Fiber.interruptAll(a.slice(10, 2_000))
    assert.lengthOf(yield* fill(limit, "b", 1_000), 1_000)
  }))

it.effect("lets an only cell use all, and an integrator a quarter", () =>
  Effect.gen(function*() {
    const limit = new ConcurrencyLimit()
    const fiber = yield* Effect.forkChild(Effect.never)
    const integratorId = IntegratorId.make("one")
    let admitted = 0
    while (limit.enter("ingest", { integratorId, cell: undefined }, fiber)) admitted++
    assert.strictEqual(admitted, max / 4)
    assert.lengthOf(yield* fill(limit, undefined), max - max / 4)
  }))

it.effect("counts nothing of requests that it refuses", () =>
  Effect.gen(function*() {
    const limit = new ConcurrencyLimit()
    const fiber = yield* Effect.forkChild(Effect.never)
    const one = { integratorId: IntegratorId.make("one"), cell: "a" }
    for (let sent = 0; sent < 2 * max; sent++) assert.strictEqual(limit.enter("ingest", one, fiber), sent < max / 4)
    assert.lengthOf(yield* fill(limit, "a"), max - max / 4)
  }))
