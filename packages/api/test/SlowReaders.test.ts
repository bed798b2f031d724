import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { HttpServer, HttpServerResponse } from "effect/http"
import { once } from "node:events"
import { connect } from "node:net"
import * as Server from "../src/Server.ts"

/** More than the buffers between two processes hold. */
const large = "x".repeat(32 * 1024 * 1024)

const silentMillis = 500

const turnMillis = 50

/** Asks for the large answer, and how many bytes of it came until the server closed the connection. */
const ask = (port: number, reads: boolean) =>
  Effect.promise(async () => {
    const client = connect(port, "127.0.0.1")
    await once(client, "connect")
    client.write("GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
    let bytes = 0
    if (!reads) {
      await once(client, "readable")
      // longer than the server's timeout, in turns of the event loop that both share; what was sent is read afterwards
      for (let turn = 0; turn < 3 * silentMillis / turnMillis; turn++) {
        await new Promise((resolve) => setTimeout(resolve, turnMillis))
      }
    }
    client.on("data", (chunk: Buffer) => bytes += chunk.length).on("error", () => {})
    await once(client, "close")
    return bytes
  })

/** Serves the large answer on the port that it gives, and closes connections that are silent for so long. */
const serve = Effect.fnUntraced(function*(silentMillis: number) {
  const server = yield* Layer.build(Server.layer({ host: "127.0.0.1", port: 0, silentMillis }))
  yield* HttpServer.serveEffect(Effect.succeed(HttpServerResponse.text(large))).pipe(Effect.provideContext(server))
  const { address } = Context.get(server, HttpServer.HttpServer)
  return "port" in address ? address.port : 0
})

it.live("a client that reads no answer loses its connection, and one that reads has all of it", () =>
  Effect.gen(function*() {
    // a moment in which nothing runs here is no silence of the reader's
    assert.isAbove(yield* ask(yield* serve(60 * silentMillis), true), large.length)
    assert.isBelow(yield* ask(yield* serve(silentMillis), false), large.length)
  }).pipe(Effect.scoped))
