import { CardRewards } from "@card-rewards/client/CardRewards"
import { UserId } from "@card-rewards/domain/Ids"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { createServer, type RequestListener } from "node:http"

/** The address of a server on this machine. */
const serving = (listener: RequestListener) =>
  Effect.callback<string>((resume) => {
    const server = createServer(listener).listen(0, "127.0.0.1", () => {
      const address = server.address()
      resume(Effect.succeed(`http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`))
    })
    server.unref()
  })

it.live("a redirect is an error: neither the key nor the request goes to where it leads", () =>
  Effect.gen(function*() {
    const redirected: Array<string | undefined> = []
    const other = yield* serving((request, response) => {
      redirected.push(request.url)
      response.setHeader("content-type", "application/json").end("{}")
    })
    for (const status of [301, 302, 303, 307, 308]) {
      let requests = 0
      const baseUrl = yield* serving((request, response) => {
        requests++
        response.writeHead(status, { location: `${other}${request.url}` }).end()
      })
      const layer = CardRewards.layer({ baseUrl, apiKey: Redacted.make("key") })
      const { users } = yield* Effect.provide(CardRewards, Layer.provide(layer, FetchHttpClient.layer))
      const params = { userId: UserId.make("ann") }
      const read = yield* Effect.flip(users.balance({ params }))
      const written = yield* Effect.flip(users.put({ params, payload: {} }))
      for (const { _tag, message } of [read, written]) {
        assert.strictEqual(_tag, "HttpClientError")
        assert.include(message, `${status}`)
      }
      assert.strictEqual(requests, 2)
    }
    assert.deepStrictEqual(redirected, [])
  }))
