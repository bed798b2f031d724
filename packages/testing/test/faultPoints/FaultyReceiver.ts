import * as LoopbackServer from "@card-rewards/testing/LoopbackServer"
import { read, type Received } from "@card-rewards/testing/WebhookReceiver"
import { Effect } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { Points } from "./Points.ts"

/** Longer than a lease in the tests. */
const stallMillis = 1_500

/** A receiver with points before the end of a request, before the answer, and during the answer. */
export const listen = Effect.fnUntraced(function*(points: Points) {
  const received: Array<Received> = []
  const server = createServer((request, response) => void receive(request, response).catch(() => response.destroy()))

  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const early = points.pass("delivering: the request begins")
    if (early?.kind === "crash") return request.destroy()
    if (early?.kind === "error") return void response.writeHead(500, { connection: "close" }).end()
    if (early?.kind === "stall") await sleep()
    received.push(await read(request))
    const whole = points.pass("delivering: the request is read")
    if (whole?.kind === "crash") return request.destroy()
    if (whole?.kind === "error") return void response.writeHead(503, { "retry-after": "1" }).end()
    if (whole?.kind === "stall") await sleep()
    response.writeHead(200, { "content-length": "2" }).write("o")
    const half = points.pass("delivering: the answer is half written")
    if (half?.kind === "stall") await sleep()
    if (half?.kind === "crash" || half?.kind === "error") return response.socket?.resetAndDestroy()
    response.end("k")
    const fault = points.pass("delivering: the answer is written")
    if (fault?.kind === "stall") await sleep()
    if (fault !== undefined) return response.socket?.destroy()
  }

  const { port } = yield* LoopbackServer.listen(server)
  return { received, url: `http://127.0.0.1:${port}/hooks` }
})

const sleep = () => new Promise((resolve) => setTimeout(resolve, stallMillis))
