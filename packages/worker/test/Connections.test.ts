import { listen } from "@card-rewards/testing/LoopbackServer"
import { ConnectorError } from "@card-rewards/worker/Connector"
import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { createServer, type ServerResponse } from "node:http"
import { connect } from "node:net"
import { Connections, type ConnectionsOptions } from "../src/Connector/Connections.ts"

const connectionsWith = (options: Partial<ConnectionsOptions>) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      new Connections({
        connect: ({ hostname, port }, onDone) => {
          const tcp = connect(Number(port), hostname, () => onDone({ socket: tcp, tcp }))
          tcp.on("error", () => {})
        },
        nowMillis: () => 0,
        keepAliveMillis: 60_000,
        maxAgeMillis: 60_000,
        ...options
      })
    ),
    (connections) => Effect.promise(() => connections.destroy())
  )

/** Sends one request and gives its connection back. */
const post = (connections: Connections, origin: string) =>
  Effect.callback<void, Error>((resume) => {
    const connection = connections.take(origin)
    connection.client.dispatch({ path: "/", method: "POST", body: "{}" }, {
      onRequestStart: () => {},
      onResponseStart: () => {},
      onResponseData: () => {},
      onResponseEnd: () => {
        connections.giveBack(connection, true)
        resume(Effect.void)
      },
      onResponseError: (_controller, error) => {
        connections.giveBack(connection, false)
        resume(Effect.fail(error))
      }
    })
  })

/** A receiver that answers once it has `count` requests; from then on at once. */
const receiverOf = (count: number) => {
  const held: Array<ServerResponse> = []
  return Effect.map(
    listen(createServer((request, response) => {
      request.resume()
      held.push(response)
      if (held.length >= count) for (const one of held) one.end()
    })),
    (receiver) => ({ ...receiver, origin: `http://127.0.0.1:${receiver.port}` })
  )
}

it.live("what one request needs keeps one connection: the others end unused, however many requests follow", () =>
  Effect.gen(function*() {
    const receiver = yield* receiverOf(4)
    const connections = yield* connectionsWith({ keepAliveMillis: 300 })
    const one = post(connections, receiver.origin)
    yield* Effect.all([one, one, one, one], { concurrency: 4 })
    assert.strictEqual(receiver.open(), 4)
    while (receiver.open() > 1) yield* one
    assert.strictEqual(receiver.connections(), 4)
  }).pipe(Effect.scoped), 30_000)

it.live("an origin is forgotten with its last connection, whether old, idle, failed or closed by the receiver", () =>
  Effect.gen(function*() {
    let now = 0
    const receiver = yield* receiverOf(1)
    const connections = yield* connectionsWith({ nowMillis: () => now, maxAgeMillis: 1_000, keepAliveMillis: 300 })
    yield* post(connections, receiver.origin)
    now = 1_001
    yield* post(connections, receiver.origin)
    assert.strictEqual(receiver.connections(), 2)
    assert.strictEqual(connections.origins, 1)
    while (connections.origins > 0) yield* Effect.yieldNow
    yield* post(connections, receiver.origin)
    yield* receiver.close
    while (connections.origins > 0) yield* Effect.yieldNow
    const cut = yield* listen(createServer((request) => request.socket.destroy()))
    yield* Effect.flip(post(connections, `http://127.0.0.1:${cut.port}`))
    assert.strictEqual(connections.origins, 0)
  }).pipe(Effect.scoped), 30_000)

it.live("a connection is closed when 256 KiB have arrived since its last request, answered or not", () =>
  Effect.gen(function*() {
    let bytesRead = 0
    const receiver = yield* receiverOf(1)
    const silent = yield* listen(createServer())
    const connections = yield* connectionsWith({
      connect: ({ hostname, port }, onDone) => {
        const socket = connect(Number(port), hostname, () =>
          onDone({
            socket,
            tcp: {
              get bytesRead() {
                return bytesRead
              }
            }
          }))
        socket.on("error", () => {})
      }
    })
    for (let request = 0; request < 4; request++) {
      yield* post(connections, receiver.origin)
      bytesRead += 200 * 1024
      yield* Effect.sleep(150)
    }
    assert.strictEqual(receiver.connections(), 1)
    bytesRead += 60 * 1024
    yield* receiver.drained
    const unanswered = yield* Effect.forkChild(Effect.flip(post(connections, `http://127.0.0.1:${silent.port}`)))
    while (silent.open() === 0) yield* Effect.yieldNow
    yield* Effect.sleep(150)
    assert.strictEqual(silent.open(), 1)
    bytesRead += 300 * 1024
    assert.instanceOf(yield* Fiber.join(unanswered), ConnectorError)
    yield* silent.drained
    assert.strictEqual(connections.origins, 0)
  }).pipe(Effect.scoped), 10_000)

it.live("after the end of the service no connection is made", () =>
  Effect.gen(function*() {
    const receiver = yield* receiverOf(1)
    const connections = yield* connectionsWith({})
    yield* Effect.promise(() => connections.destroy())
    assert.strictEqual((yield* Effect.flip(post(connections, receiver.origin))).message, "The client is destroyed")
    assert.strictEqual(receiver.connections(), 0)
  }).pipe(Effect.scoped), 30_000)
