import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { execFile } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"

const page = readFileSync(new URL("../../../docs/webhooks.md", import.meta.url), "utf8")
const code = /```ts catch-up\n([\s\S]*?)```/.exec(page)?.[1] ?? ""

/** Catches up, each time from where the last time ended, until `count` events were received. Writes their ids. */
const program = (baseUrl: string, apiKey: string, count: number) => `${code}
  const received: Array<string> = []
  let after: string | undefined
  while (received.length < ${count}) {
    after = await catchUp(${JSON.stringify({ baseUrl, apiKey })}, after, async (event) => { received.push(event.id) })
  }
  console.log(JSON.stringify(received))`

const writers = 8
const each = 20

const api = TestApi.layer({ limits: { read: { perSecond: 200, burst: 1 } } })

layer(api, { excludeTestServices: true })(
  "the code of docs/webhooks.md that follows the event log",
  (it) => {
    it.effect("receives every event exactly once, in order, while eight clients write and beyond the rate limit", () =>
      Effect.gen(function*() {
        const { key, port, send } = yield* TestApi
        const folder = mkdtempSync(join(tmpdir(), "card-rewards-page-"))
        yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
        const path = join(folder, "catch-up.ts")
        writeFileSync(path, program(`http://127.0.0.1:${port}`, key, writers * each))
        const numbers = Array.from({ length: writers * each }, (_, index) => index)
        const written = yield* Effect.forkChild(Effect.forEach(numbers, (number) =>
          send("POST", "/v1/sandbox/deposits", {
            json: { reference: `d${number}`, amount: { asset: "USDC", amount: "1" } }
          }), { concurrency: writers }))
        const { stdout } = yield* Effect.promise(() => promisify(execFile)(process.execPath, [path]))
        for (const { status } of yield* Fiber.join(written)) assert.strictEqual(status, 200)
        const received: ReadonlyArray<string> = JSON.parse(stdout)
        assert.lengthOf(received, writers * each)
        assert.strictEqual(new Set(received).size, writers * each)
        assert.deepStrictEqual(received, received.toSorted())
      }).pipe(Effect.scoped))
  }
)
