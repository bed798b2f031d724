import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { clearing, clearings } from "@card-rewards/e2e/Load"
import { query, service } from "@card-rewards/e2e/Setting"
import { expect, seedIntegrator } from "@card-rewards/e2e/World"
import * as RawClient from "@card-rewards/testing/RawClient"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { once } from "node:events"
import { connect, type Socket } from "node:net"

const loadMillis = 2_500
/** The minimum number of reads that are judged; on a slow machine the load makes fewer of them. */
const leastReads = 5
const mostResidentBytes = 640 * 1024 * 1024

class Target extends Context.Service<Target, {
  readonly url: string
  readonly port: number
  readonly apiKey: string
  readonly now: number
  readonly residentBytes: () => number
}>()("test/Target") {
  static readonly layer = Layer.effect(
    Target,
    Effect.gen(function*() {
      const { api, apiKey, port, url, client } = yield* service()
      return Target.of({ url, port, apiKey, now: yield* seedIntegrator(client), residentBytes: api.residentBytes })
    })
  )
}

/** Where too many connections are made at one moment, the system retries some of them after up to half a minute. */
const timeoutMillis = 60_000

const clientOf = ({ apiKey, port }: Target["Service"], connections: number) =>
  RawClient.make({ baseUrl: () => `http://127.0.0.1:${port}`, apiKey, connections, timeoutMillis })

/** Reads the health and a balance again and again: health must always answer, and the read with success or 503. */
const watch = Effect.fnUntraced(function*(target: Target["Service"]) {
  const client = clientOf(target, 4)
  yield* expect(204, client.send("GET", "/health"))
  const { status } = yield* expect([200, 503], client.send("GET", "/v1/users/user:1/balance"))
  yield* Effect.sleep(50)
  return status
})

const whileRunning = <A, E, R>(target: Target["Service"], load: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const reads: Array<number> = []
    let isOver = false
    const watching = Effect.gen(function*() {
      while (!isOver || reads.length < leastReads) reads.push(yield* watch(target))
    })
    const [result] = yield* Effect.all(
      [Effect.ensuring(load, Effect.sync(() => isOver = true)), watching],
      { concurrency: 2 }
    )
    return { result, reads }
  })

layer(Target.layer, { excludeTestServices: true })("under more load than it can take", (it) => {
  for (const connections of [64, 256, 2_000]) {
    it.effect(`${connections} connections get 202, 429 or 503 only, and each event with 202 is stored`, () =>
      Effect.gen(function*() {
        const target = yield* Target
        const client = clientOf(target, connections)
        const statuses = new Map<number, number>()
        const acknowledged = new Set<string>()
        const end = performance.now() + loadMillis
        const sender = Effect.gen(function*() {
          do {
            const one = clearing(target.now)
            const { status } = yield* expect([202, 429, 503], client.send("POST", "/v1/spend-events", one))
            statuses.set(status, (statuses.get(status) ?? 0) + 1)
            if (status === 202) acknowledged.add(one.externalTransactionId)
          } while (performance.now() < end)
        })
        const { reads } = yield* whileRunning(target, Effect.all(Array.from({ length: connections }, () => sender), {
          concurrency: "unbounded",
          discard: true
        }))
        assert.include(reads, 200)
        const rows = yield* query<{ id: string }>(
          target.url,
          "SELECT external_transaction_id AS id FROM spend_events"
        )
        const stored = new Set(rows.map(({ id }) => id))
        assert.deepStrictEqual([...acknowledged].filter((id) => !stored.has(id)), [])
        assert.isAbove(acknowledged.size, 0)
        assert.isBelow(target.residentBytes(), mostResidentBytes)
        yield* Effect.logInfo(
          `${connections} connections: ${JSON.stringify([...statuses])}, ${target.residentBytes() >> 20} MiB`
        )
      }))
  }

  it.effect("while no event can be stored, posts beyond the limit get 503 at once, others in time; reads work", () =>
    Effect.gen(function*() {
      const target = yield* Target
      const client = clientOf(target, 2_000)
      // connected before what is timed
      yield* Effect.all(Array.from({ length: 2_000 }, () => expect(204, client.send("GET", "/health"))), {
        concurrency: "unbounded",
        discard: true
      })
      const sql = yield* AdminSql.connect(Redacted.make(target.url))
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`LOCK TABLE spend_event_queue IN ACCESS EXCLUSIVE MODE`
        const posts = clearings(2_000, target.now).map((one) => client.send("POST", "/v1/spend-events", one))
        const { reads, result } = yield* whileRunning(target, Effect.all(posts, { concurrency: "unbounded" }))
        for (const answer of result) {
          assert.strictEqual(answer.status, 503, answer.text)
          assert.match(`${answer.headers["retry-after"]}`, /^[1-9]/)
        }
        const refused = result.filter(({ text }) => text.includes("more to do than it can"))
        assert.isAbove(refused.length, 0)
        const slowest = Math.max(...result.map(({ millis }) => millis))
        assert.isBelow(slowest, 10_000)
        assert.isAbove(reads.filter((status) => status === 200).length, reads.length / 2)
      }))
      yield* expect(202, client.sendWithRetries("POST", "/v1/spend-events", clearing(target.now)))
      assert.isBelow(target.residentBytes(), mostResidentBytes)
    }).pipe(Effect.scoped))

  it.effect("slow clients, incomplete bodies and garbage do not affect other clients", () =>
    Effect.gen(function*() {
      const target = yield* Target
      const open = Effect.acquireRelease(
        Effect.promise(async () => {
          const socket = connect(target.port, "127.0.0.1").on("error", () => undefined)
          await once(socket, "connect")
          return socket
        }),
        (socket) => Effect.sync(() => socket.destroy())
      )
      const many = (count: number, begin: (socket: Socket) => void) =>
        Effect.forEach(Array.from({ length: count }, () => open), (one) =>
          Effect.tap(one, (socket) => Effect.sync(() => begin(socket))))
      yield* many(300, (socket) => socket.write("POST /v1/spend-events HTTP/1.1\r\nhost: x\r\nx-slow: "))
      const head = "POST /v1/spend-events HTTP/1.1\r\nhost: x\r\n" +
        `x-api-key: ${target.apiKey}\r\ncontent-type: application/json\r\n`
      yield* many(300, (socket) => socket.write(`${head}content-length: 262144\r\n\r\n{"kind":"${" ".repeat(200_000)}`))
      const garbage = yield* many(50, (socket) =>
        socket.write(`GET /health HTTP/1.1\r\nhost: x\r\n\r\n\0\xffnonsense\r\n\r\n${"x".repeat(5_000)}`))
      for (const socket of garbage) {
        // requests before the garbage may be answered; then the connection ends
        const answer = yield* Effect.promise(() => socket.setEncoding("utf8").toArray().catch(() => []))
        assert.match(answer.join(""), /^(HTTP\/1\.1 204 |HTTP\/1\.1 400 Bad Request|$)/)
      }
      const client = clientOf(target, 32)
      const posts = clearings(200, target.now).map((one) =>
        expect(202, client.sendWithRetries("POST", "/v1/spend-events", one)))
      yield* Effect.all(posts, { concurrency: 32 })
      assert.strictEqual(client.failures.noAnswer, 0, client.failures.last)
      for (let turn = 0; turn < 10; turn++) assert.strictEqual(yield* watch(target), 200)
      assert.isBelow(target.residentBytes(), mostResidentBytes)
    }).pipe(Effect.scoped))
})
