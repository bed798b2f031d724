import { Cells } from "@card-rewards/api/Cells"
import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { allSlots, slotCount } from "@card-rewards/core/Slots"
import { makeEmpty } from "@card-rewards/dev-postgres/TestDatabase"
import { IntegratorId } from "@card-rewards/domain/Ids"
import * as LoopbackServer from "@card-rewards/testing/LoopbackServer"
import { atPort, NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { secretsKeys } from "@card-rewards/testing/Secrets"
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Layer, Logger, Redacted } from "effect"
import { connect, createServer } from "node:net"

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

const options = { environment: "sandbox", secretsKeys, allowPrivateNetwork: true, poolSize: 4 } as const

it.live("a cell whose vaults are of another environment is named in the log, and the others are served", () =>
  Effect.gen(function*() {
    const [a, b] = [yield* newCell("a", (slot) => slot < half), yield* newCell("b", (slot) => slot >= half)]
    // by its SHA-256 an integrator of the second half
    yield* Effect.flatMap(Integrators, (integrators) => integrators.create(IntegratorId.make("acme"))).pipe(
      Effect.provide(Integrators.layer.pipe(
        Layer.provide(Environment.layer("production")),
        Layer.provide(Database.layer({ url: b.url, poolSize: 1, applicationName: "test" }))
      ))
    )
    const lines: Array<string> = []
    const cells = yield* Layer.build(Cells.layer({ ...options, cells: [a, b] })).pipe(
      Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(`${message}`))]))
    )
    const { of } = yield* Effect.provide(Cells, cells)
    assert.isDefined(of(half - 1))
    assert.isUndefined(of(half))
    assert.include(lines, "Cell b: ENVIRONMENT is sandbox, and the vaults of the database are of production")
  }).pipe(Effect.scoped))

/** The address of a database through a proxy that ends one connection, by its number, after its first bytes. */
const losing = Effect.fnUntraced(function*(url: Redacted.Redacted, lost: number) {
  const { hostname, port } = new URL(Redacted.value(url))
  let accepted = 0
  const server = createServer((incoming) => {
    const outgoing = connect(Number(port), hostname).on("error", () => incoming.destroy())
    incoming.on("error", () => {}).once("close", () => outgoing.destroy()).pipe(outgoing)
    outgoing.once("close", () => incoming.destroy()).pipe(incoming)
    if (++accepted === lost) incoming.once("data", () => incoming.destroy())
  })
  return atPort(url, (yield* LoopbackServer.listen(server)).port)
})

it.live("an only cell opens also where one of its first connections is lost", () =>
  Effect.gen(function*() {
    const cell = yield* newCell("a", () => true)
    for (const lost of [1, 2, 3, 4, 5]) {
      const cells = [{ ...cell, url: yield* losing(cell.url, lost) }]
      const { of } = yield* Effect.provide(Cells, yield* Layer.build(Layer.fresh(Cells.layer({ ...options, cells }))))
      assert.isDefined(of(0), `connection ${lost}`)
    }
  }).pipe(Effect.scoped))

it.live("a cell whose database does not answer is away within 4 s, and back soon after it answers", () =>
  Effect.gen(function*() {
    const proxy = yield* NetworkProxy
    const [a, b] = [yield* newCell("a", (slot) => slot < half), yield* newCell("b", (slot) => slot >= half)]
    const cells = [a, { ...b, url: proxy.through(b.url) }]
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
