import { exchange } from "@card-rewards/testing/HttpExchange"
import { KeptConnections } from "@card-rewards/testing/KeptConnections"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { Worker } from "node:worker_threads"

/** Serves without Node's hint of its time-out, by which the agent would keep no connection. */
const program = `
const server = require("node:http").createServer((_, response) => {
  response.setHeader("connection", "keep-alive").end("{}")
})
Object.assign(server, { keepAliveTimeout: 1, keepAliveTimeoutBuffer: 50 })
server.listen(0, "127.0.0.1", () => require("node:worker_threads").parentPort.postMessage(server.address().port))
`

/** Keeps this thread busy. */
const block = (millis: number): void => {
  for (const until = performance.now() + millis; performance.now() < until;);
}

it.live("a request after a busy time is sent over no connection that the server has closed meanwhile", () =>
  Effect.gen(function*() {
    const server = yield* Effect.acquireRelease(
      Effect.sync(() => new Worker(program, { eval: true })),
      (worker) => Effect.promise(() => worker.terminate())
    )
    const [port] = yield* Effect.promise(() => once(server, "message"))
    const agent = yield* Effect.acquireRelease(
      Effect.sync(() => new KeptConnections({ maxIdleMillis: 20 })),
      (agent) => Effect.sync(() => agent.destroy())
    )
    for (let round = 0; round < 4; round++) {
      const { status } = yield* exchange({ agent, baseUrl: `http://127.0.0.1:${port}` }, "GET", "/")
      assert.strictEqual(status, 200)
      yield* Effect.sleep(1)
      block(150)
    }
  }).pipe(Effect.scoped))
