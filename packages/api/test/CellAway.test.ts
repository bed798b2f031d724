import { Cells } from "@card-rewards/api/Cells"
import * as Database from "@card-rewards/core/Database"
import { allSlots, slotCount } from "@card-rewards/core/Slots"
import { makeEmpty } from "@card-rewards/dev-postgres/TestDatabase"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { secretsKeys } from "@card-rewards/testing/Secrets"
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"

/** A pause and two reads of the slots that time out, with another pause between them; and a busy machine's delays. */
const awayWithinMillis = 4_500
/** Requests and reads have one deadline each until all half-open connections are replaced. */
const backWithinMillis = 6_000

const half = slotCount / 2
const newCell = Effect.fnUntraced(function*(name: string, isOf: (slot: number) => boolean) {
  const url = yield* makeEmpty
  const slots = new Set([...allSlots].filter(isOf))
  yield* Database.migrate(url, { slots })
  return { name, url, slots }
})

it.live("a cell whose database does not answer is away within 4 s, and back soon after it answers", () =>
  Effect.gen(function*() {
    const proxy = yield* NetworkProxy
    const [a, b] = [yield* newCell("a", (slot) => slot < half), yield* newCell("b", (slot) => slot >= half)]
    const cells = [a, { ...b, url: proxy.through(b.url) }]
    const options = { environment: "sandbox", secretsKeys, allowPrivateNetwork: true, poolSize: 4 } as const
    const { of } = yield* Effect.provide(Cells, yield* Layer.build(Cells.layer({ ...options, cells })))
    const becomes = Effect.fnUntraced(function*(isAway: boolean) {
      const wait = Effect.whileLoop({
        while: () => (of(half) === undefined) !== isAway,
        body: () => Effect.sleep(20),
        step: () => undefined
      })
      const [took] = yield* Effect.timed(wait)
      return Duration.toMillis(took)
    })
    yield* becomes(false)
    const round = Effect.gen(function*() {
      yield* proxy.freeze
      const away = yield* becomes(true)
      assert.isDefined(of(half - 1))
      yield* proxy.restore
      const back = yield* becomes(false)
      return away < awayWithinMillis && back < backWithinMillis ? undefined : yield* Effect.fail({ away, back })
    })
    // the best of three: a machine that stalls is late
    yield* Effect.retry(round, { times: 2 })
  }).pipe(Effect.provide(NetworkProxy.layer), Effect.scoped))
