import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { createServer } from "node:http"
import { generateLoad } from "../src/Load.ts"

const server = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = createServer((_, response) => void response.writeHead(204).end())
    await once(server.listen(0, "127.0.0.1"), "listening")
    return server
  }),
  (server) => Effect.sync(() => server.close())
)

it.live("a load has a response also where its time was over before it began, as on a machine that stalls", () =>
  Effect.gen(function*() {
    const address = (yield* server).address()
    const port = typeof address === "object" ? address?.port : undefined
    const result = yield* generateLoad({
      baseUrls: [`http://127.0.0.1:${port}`],
      connections: 4,
      millis: 0,
      next: () => ({ method: "GET", path: "/", headers: [] }),
      expected: { status: 204 }
    })
    assert.deepStrictEqual([result.requests, result.wrong], [1, 0])
    assert.isTrue(Number.isFinite(result.cpuMicros / result.requests) && result.p50 > 0)
  }))
