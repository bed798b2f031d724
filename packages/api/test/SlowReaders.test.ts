import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { HttpServer, HttpServerResponse } from "effect/http"
import { once } from "node:events"
import { connect } from "node:net"
import * as Server from "../src/Server.ts"

/** More than the buffers between two processes hold. */
const large = "x".repeat(32 * 1024 * 1024)

const silentMillis = 500

/** Asks for the large answer, and how many bytes of it came until the server closed the connection. */
const ask = (port: number, reads: boolean) =>
  Effect.promise(async () => {
    const client = connect(port, "127.0.0.1")
    await once(client, "connect")
    client.write("GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
    let bytes = 0
    const begun = performance.now()
    if (!reads) {
      await once(client, "readable")
      // long enough for the server to lose its patience; what was under way is read after that
      while (performance.now() - begun < 3 * silentMillis) await new Promise((resolve) => setTimeout(resolve, 50))
    }
    client.on("data", (chunk: Buffer) => bytes += chunk.length).on("error", () => {})
    await once(client, "close")
    return bytes
  })

it.live("a client that reads no answer loses its connection, and one that reads has all of it", () =>
  Effect.gen(function*() {
    const server = yield* Layer.build(Server.layer({ host: "127.0.0.1", port: 0, silentMillis }))
    yield* HttpServer.serveEffect(Effect.succeed(HttpServerResponse.text(large))).pipe(Effect.provideContext(server))
    const { address } = Context.get(server, HttpServer.HttpServer)
    const port = "port" in address ? address.port : 0
    assert.isAbove(yield* ask(port, true), large.length)
    assert.isBelow(yield* ask(port, false), large.length)
  }).pipe(Effect.scoped))
